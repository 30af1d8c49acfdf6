#include "core/device/stream.h"

#include <exception>
#include <utility>

#include "core/device/acl_call.h"
#include "core/device/cann_declarations.h"
#include "core/device/event.h"

namespace trireme {
namespace {

// ACL's code for a synchronisation timeout; the pinned headers do not define it.
constexpr aclError kStreamSyncTimeout = 507046;

}  // namespace

Stream::Stream() : handle_(nullptr, Destroy{.owned = true}) {
  aclrtStream stream = nullptr;
  AclCall(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC),
          "aclrtCreateStreamWithConfig");
  handle_.reset(stream);
  // Work after a failed task must not run on its garbage.
  AclCall(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE), "aclrtSetStreamFailureMode");
}

void Stream::Destroy::operator()(aclrtStream stream) const {
  if (!owned) return;
  // While an error unwinds, queued work may wait for a peer that will never arrive. Otherwise ACL requires it
  // done. A failed stream cannot be synchronised: its waiters have received the error.
  const bool unwinding = std::uncaught_exceptions() > 0;
  const bool done = !unwinding && aclrtSynchronizeStream(stream) == ACL_SUCCESS;
  static_cast<void>(done ? aclrtDestroyStream(stream) : aclrtDestroyStreamForce(stream));
}

void Stream::Synchronize() const { AclCall(aclrtSynchronizeStream(handle()), "aclrtSynchronizeStream"); }

bool Stream::SynchronizeFor(std::chrono::milliseconds limit) const {
  const aclError code = aclrtSynchronizeStreamWithTimeout(handle(), static_cast<int32_t>(limit.count()));
  if (code == kStreamSyncTimeout) {
    static_cast<void>(aclGetRecentErrMsg());  // clears the text: a later failure must not show it
    return false;
  }
  AclCall(code, "aclrtSynchronizeStreamWithTimeout");
  return true;
}

bool Stream::idle() const {
  aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
  AclCall(aclrtStreamQuery(handle(), &status), "aclrtStreamQuery");
  return status == ACL_STREAM_STATUS_COMPLETE;
}

void Stream::WaitFor(const Event& event) const {
  AclCall(aclrtStreamWaitEvent(handle(), event.handle()), "aclrtStreamWaitEvent");
}

void Stream::RunOnHost(std::function<void()> function) const {
  auto owned = std::make_unique<std::function<void()>>(std::move(function));
  const auto run = [](void* argument) {
    const std::unique_ptr<std::function<void()>> mine(static_cast<std::function<void()>*>(argument));
    (*mine)();
  };
  AclCall(aclrtLaunchHostFunc(handle(), run, owned.get()), "aclrtLaunchHostFunc");
  static_cast<void>(owned.release());  // the stream owns it now
}

}  // namespace trireme
