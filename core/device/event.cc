#include "core/device/event.h"

#include <cstdint>

#include "core/device/acl_call.h"
#include "core/device/stream.h"

namespace trireme {

Event::Event(EventKind kind) {
  // The "Ex" kind may be recorded again without a reset, as a pool of events requires.
  const uint32_t flags =
      ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | (kind == EventKind::kTimed ? ACL_EVENT_TIME_LINE : 0u);
  aclrtEvent event = nullptr;
  AclCall(aclrtCreateEventExWithFlag(&event, flags), "aclrtCreateEventExWithFlag");
  handle_.reset(event);
}

void Event::Record(const Stream& stream) { AclCall(aclrtRecordEvent(handle(), stream.handle()), "aclrtRecordEvent"); }

bool Event::done() const {
  aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
  AclCall(aclrtQueryEventStatus(handle(), &status), "aclrtQueryEventStatus");
  return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

void Event::Wait() const { AclCall(aclrtSynchronizeEvent(handle()), "aclrtSynchronizeEvent"); }

double ElapsedMilliseconds(const Event& start, const Event& end) {
  float milliseconds = 0;
  AclCall(aclrtEventElapsedTime(&milliseconds, start.handle(), end.handle()), "aclrtEventElapsedTime");
  return milliseconds;
}

}  // namespace trireme
