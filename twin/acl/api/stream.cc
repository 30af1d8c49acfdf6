// Streams: create, destroy, wait, query.
#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/host_waits.h"
#include "twin/acl/runtime/runtime.h"

using twin::Context;
using twin::Fail;
using twin::FailNull;
using twin::Runtime;
using twin::Signal;
using twin::Stream;
using twin::Text;

namespace {

aclError CreateStream(const char* function, aclrtStream* stream) {
  if (stream == nullptr) return FailNull(function, "stream");
  std::shared_ptr<Context> context;
  TWIN_TRY(twin::RequireContext(function, &context));
  return Runtime::Get().NewStream(function, context, stream) == nullptr ? ACL_ERROR_RT_NO_STREAM_RESOURCE : ACL_SUCCESS;
}

aclError FindToDestroy(const char* function, aclrtStream handle, std::shared_ptr<Stream>* stream) {
  if (handle == nullptr) {
    return Fail(ACL_ERROR_INVALID_PARAM, function, "stream is null; the default stream cannot be destroyed");
  }
  TWIN_TRY(twin::RequireStream(function, handle, stream));
  if (Stream::Current() != stream->get()) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_PARAM_INVALID, function, "called from a task of this same stream");
}

}  // namespace

aclError aclrtCreateStream(aclrtStream* stream) { return CreateStream(__func__, stream); }

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag) {
  constexpr uint32_t kLowestPriority = 7;
  constexpr uint32_t kKnownFlags = ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC;
  if (priority > kLowestPriority) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, Text("priority is ", priority, "; wanted 0 to 7"));
  }
  if ((flag & ~kKnownFlags) != 0) {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__,
                Text("flag is ", flag, "; only ACL_STREAM_FAST_LAUNCH (1) and ACL_STREAM_FAST_SYNC (2) are known"));
  }
  return CreateStream(__func__, stream);
}

// ACL asks the program to synchronise first. The twin refuses a stream with pending tasks: on a device they
// might be lost.
aclError aclrtDestroyStream(aclrtStream stream) {
  std::shared_ptr<Stream> found;
  TWIN_TRY(FindToDestroy(__func__, stream, &found));
  if (!found->idle()) {
    return Fail(ACL_ERROR_RT_STREAM_NOT_COMPLETE, __func__,
                Text("stream ", found->id(), " still has tasks; call aclrtSynchronizeStream first"));
  }
  if (Runtime::Get().streams.Remove(stream) != nullptr) found->Close();
  return ACL_SUCCESS;
}

aclError aclrtDestroyStreamForce(aclrtStream stream) {
  std::shared_ptr<Stream> found;
  TWIN_TRY(FindToDestroy(__func__, stream, &found));
  if (Runtime::Get().streams.Remove(stream) == nullptr) return ACL_SUCCESS;
  constexpr std::chrono::seconds kPatience{5};
  if (found->Abort(Signal::Clock::now() + kPatience)) found->Close();
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  twin::CountHostWait(__func__);
  return found->Synchronize(__func__);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
  if (timeout < -1 || timeout == 0) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, Text("timeout is ", timeout, "; wanted -1 or milliseconds"));
  }
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  const aclError error = found->Synchronize(
      __func__, timeout < 0 ? Signal::kNever : Signal::Clock::now() + std::chrono::milliseconds(timeout));
  // A wait that timed out goes on in the next call: one wait, however long it takes.
  if (error != ACL_ERROR_RT_STREAM_SYNC_TIMEOUT) twin::CountHostWait(__func__);
  return error;
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  if (status == nullptr) return FailNull(__func__, "status");
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  *status = found->idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
  return found->error() == ACL_SUCCESS ? ACL_SUCCESS : found->ReportError(__func__);
}

aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
  if (mode != ACL_CONTINUE_ON_FAILURE && mode != ACL_STOP_ON_FAILURE) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, Text("mode is ", mode, "; wanted 0 (continue) or 1 (stop)"));
  }
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  found->set_failure_mode(mode);
  return ACL_SUCCESS;
}

aclError aclrtStreamGetId(aclrtStream stream, int32_t* streamId) {
  if (streamId == nullptr) return FailNull(__func__, "streamId");
  std::shared_ptr<Stream> found;
  TWIN_TRY(twin::RequireStream(__func__, stream, &found));
  *streamId = found->id();
  return ACL_SUCCESS;
}
