// ACL's event functions: which calls accept events of which creation function, and with which flags.
#include <chrono>

#include "acl/acl.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/host_waits.h"
#include "twin/acl/runtime/limits.h"
#include "twin/acl/runtime/runtime.h"

using twin::Context;
using twin::Event;
using twin::EventKind;
using twin::Fail;
using twin::FailNull;
using twin::Runtime;
using twin::Stream;
using twin::Text;
using twin::WhenDropped;

namespace {

aclError CreateEvent(const char* function, aclrtEvent* event, EventKind kind, uint32_t flags) {
  constexpr uint32_t kKnown =
      ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE | ACL_EVENT_EXTERNAL;
  if (event == nullptr) return FailNull(function, "event");
  std::shared_ptr<Context> context;
  TWIN_TRY(twin::RequireContext(function, &context));
  if (kind != EventKind::kPlain && (flags == 0 || (flags & ~kKnown) != 0)) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, function,
                Text("flag is ", flags,
                     "; wanted a combination of SYNC 1, CAPTURE_STREAM_PROGRESS 2, TIME_LINE 8, EXTERNAL 32"));
  }
  *event = Runtime::Get().events.Add(std::make_shared<Event>(kind, flags, context->device));
  return ACL_SUCCESS;
}

// aclrtResetEvent, aclrtQueryEvent and aclrtQueryEventWaitStatus do not accept events that may be re-recorded
// freely.
aclError RefuseEx(const char* function, const Event& event) {
  if (event.kind != EventKind::kEx) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, function,
              "the event was created by aclrtCreateEventExWithFlag, which this call does not accept; "
              "use aclrtQueryEventStatus, or record it again without a reset");
}

aclError RequireSyncFlag(const char* function, const Event& event) {
  if (event.kind != EventKind::kWithFlag || (event.flags & ACL_EVENT_SYNC) != 0) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_PARAM_INVALID, function,
              Text("the event was created by aclrtCreateEventWithFlag with flag ", event.flags,
                   "; this call needs the flag ACL_EVENT_SYNC"));
}

// Before its first record, an Ex event counts as complete; any other does not.
bool Complete(const Event& event) {
  return event.kind == EventKind::kEx && !event.recorded() ? true : event.complete();
}

// The task of aclrtStreamWaitEvent: a failure of the recording stream propagates to the waiting stream.
aclError WaitOnStream(Event& event, uint64_t record) {
  const char* const function = "aclrtStreamWaitEvent";
  const auto limit = std::chrono::seconds(twin::op_wait_timeout_s.load());
  const auto deadline = limit.count() == 0 ? twin::Signal::kNever : twin::Signal::Clock::now() + limit;
  if (!event.Wait(record, twin::TaskAborted, deadline)) {
    return Fail(ACL_ERROR_RT_TASK_TIMEOUT, function,
                Text("the event was not recorded within ", limit.count(), " s (aclrtSetOpWaitTimeout)"));
  }
  const aclError other = event.error();
  if (other == ACL_SUCCESS || twin::TaskAborted()) return ACL_SUCCESS;
  return Fail(other, function, "the stream that recorded the event has failed");
}

aclError RequireTime(const char* function, const char* which, const Event& event) {
  if (event.kind != EventKind::kPlain && (event.flags & ACL_EVENT_TIME_LINE) == 0) {
    return Fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, function,
                Text("the ", which, " event has flag ", event.flags, "; wanted the flag ACL_EVENT_TIME_LINE"));
  }
  if (event.recorded() && event.complete()) return ACL_SUCCESS;
  return Fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, function,
              Text("the ", which, " event has ",
                   event.recorded() ? "not been reached by its stream yet; synchronise first" : "not been recorded"));
}

}  // namespace

aclError aclrtCreateEvent(aclrtEvent* event) { return CreateEvent(__func__, event, EventKind::kPlain, 0); }

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return CreateEvent(__func__, event, EventKind::kWithFlag, flag);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  return CreateEvent(__func__, event, EventKind::kEx, flag);
}

// Queued records and waits hold a reference to the event.
aclError aclrtDestroyEvent(aclrtEvent event) {
  std::shared_ptr<Event> found;
  TWIN_TRY(twin::RequireEvent(__func__, event, &found));
  Runtime::Get().events.Remove(event);
  return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  std::shared_ptr<Event> found;
  TWIN_TRY(twin::RequireEvent(__func__, event, &found));
  std::shared_ptr<Stream> on;
  TWIN_TRY(twin::RequireStream(__func__, stream, &on));
  if (on->device() != found->device) {
    return Fail(
        ACL_ERROR_RT_STREAM_CONTEXT, __func__,
        Text("the event was created on device ", found->device, " but the stream belongs to device ", on->device()));
  }
  const uint64_t record = found->NextRecord();
  const aclError queued = on->Enqueue(
      [found, record] {
        found->Complete(record, twin::TaskError());
        return ACL_SUCCESS;
      },
      __func__, WhenDropped::kRun);
  if (queued != ACL_SUCCESS) found->Complete(record, queued);  // nobody must wait for it
  return queued;
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  std::shared_ptr<Event> found;
  TWIN_TRY(twin::RequireEvent(__func__, event, &found));
  TWIN_TRY(RequireSyncFlag(__func__, *found));
  std::shared_ptr<Stream> on;
  TWIN_TRY(twin::RequireStream(__func__, stream, &on));
  if (found->kind == EventKind::kEx && !found->recorded()) return ACL_SUCCESS;
  const uint64_t record = found->RecordToWaitFor();
  found->waits_pending.fetch_add(1);
  const aclError queued = on->Enqueue(
      [found, record] {
        const aclError result = twin::TaskError() == ACL_SUCCESS ? WaitOnStream(*found, record) : ACL_SUCCESS;
        found->waits_pending.fetch_sub(1);
        return result;
      },
      __func__, WhenDropped::kRun);
  if (queued != ACL_SUCCESS) found->waits_pending.fetch_sub(1);
  return queued;
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  std::shared_ptr<Event> found;
  TWIN_TRY(twin::RequireEvent(__func__, event, &found));
  TWIN_TRY(RefuseEx(__func__, *found));
  if (found->kind == EventKind::kPlain) {
    return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__,
                "an event created by aclrtCreateEvent cannot be reset; "
                "create it with aclrtCreateEventWithFlag and ACL_EVENT_SYNC");
  }
  TWIN_TRY(RequireSyncFlag(__func__, *found));
  std::shared_ptr<Stream> on;
  TWIN_TRY(twin::RequireStream(__func__, stream, &on));
  const uint64_t upto = found->BeginReset();
  return on->Enqueue(
      [found, upto] {
        found->FinishReset(upto);
        return ACL_SUCCESS;
      },
      __func__, WhenDropped::kRun);
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus* status) {
  if (status == nullptr) return FailNull(__func__, "status");
  std::shared_ptr<Event> found;
  TWIN_TRY(twin::RequireEvent(__func__, event, &found));
  TWIN_TRY(RefuseEx(__func__, *found));
  *status = Complete(*found) ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  if (status == nullptr) return FailNull(__func__, "status");
  std::shared_ptr<Event> found;
  TWIN_TRY(twin::RequireEvent(__func__, event, &found));
  *status = Complete(*found) ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  if (status == nullptr) return FailNull(__func__, "status");
  std::shared_ptr<Event> found;
  TWIN_TRY(twin::RequireEvent(__func__, event, &found));
  TWIN_TRY(RefuseEx(__func__, *found));
  *status = found->waits_pending == 0 ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
  return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  std::shared_ptr<Event> found;
  TWIN_TRY(twin::RequireEvent(__func__, event, &found));
  if (!found->recorded()) {
    if (found->kind == EventKind::kEx) return ACL_SUCCESS;
    return Fail(ACL_ERROR_RT_PARAM_INVALID, __func__, "the event has not been recorded; this wait would never end");
  }
  if (!found->complete()) twin::CountHostWait(__func__);
  found->Wait(found->RecordToWaitFor(), [] { return false; });
  const aclError other = found->error();
  return other == ACL_SUCCESS ? ACL_SUCCESS : Fail(other, __func__, "the stream that recorded the event has failed");
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  if (ms == nullptr) return FailNull(__func__, "ms");
  std::shared_ptr<Event> start;
  std::shared_ptr<Event> end;
  TWIN_TRY(twin::RequireEvent(__func__, startEvent, &start));
  TWIN_TRY(twin::RequireEvent(__func__, endEvent, &end));
  TWIN_TRY(RequireTime(__func__, "start", *start));
  TWIN_TRY(RequireTime(__func__, "end", *end));
  const std::chrono::duration<float, std::milli> elapsed = end->time() - start->time();
  if (elapsed.count() < 0) {
    return Fail(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, __func__,
                Text("the end event was reached ", -elapsed.count(), " ms before the start event; swap the two"));
  }
  *ms = elapsed.count();
  return ACL_SUCCESS;
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp) {
  if (timestamp == nullptr) return FailNull(__func__, "timestamp");
  std::shared_ptr<Event> found;
  TWIN_TRY(twin::RequireEvent(__func__, event, &found));
  TWIN_TRY(RequireTime(__func__, "given", *found));
  const auto since_boot = found->time().time_since_epoch();
  *timestamp = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(since_boot).count());
  return ACL_SUCCESS;
}
