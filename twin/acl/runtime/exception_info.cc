// The program's exception callback, and the accessors for its argument.
#include "twin/acl/runtime/exception_info.h"

#include <unistd.h>

#include <atomic>

#include "acl/acl.h"

struct rtExceptionInfo {
  twin::ExceptionInfo values;
};

namespace twin {
namespace {

std::atomic<aclrtExceptionInfoCallback> program_function{nullptr};
constexpr uint32_t kNoInfo = 0xFFFFFFFF;

}  // namespace

void NotifyException(ExceptionInfo info) {
  const aclrtExceptionInfoCallback function = program_function.load();
  if (function == nullptr) return;
  info.thread_id = static_cast<uint32_t>(gettid());
  rtExceptionInfo given{info};
  function(&given);
}

}  // namespace twin

aclError aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback) {
  twin::program_function = callback;
  return ACL_SUCCESS;
}

uint32_t aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return info == nullptr ? twin::kNoInfo : info->values.task_id;
}

uint32_t aclrtGetStreamIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return info == nullptr ? twin::kNoInfo : info->values.stream_id;
}

uint32_t aclrtGetThreadIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return info == nullptr ? twin::kNoInfo : info->values.thread_id;
}

uint32_t aclrtGetDeviceIdFromExceptionInfo(const aclrtExceptionInfo* info) {
  return info == nullptr ? twin::kNoInfo : info->values.device_id;
}

uint32_t aclrtGetErrorCodeFromExceptionInfo(const aclrtExceptionInfo* info) {
  return info == nullptr ? twin::kNoInfo : info->values.code;
}
