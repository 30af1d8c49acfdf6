// What the callback of aclrtSetExceptionInfoCallback receives about a failed task.
#pragma once

#include <cstdint>

namespace twin {

struct ExceptionInfo {
  uint32_t task_id = 0;
  uint32_t stream_id = 0;
  uint32_t thread_id = 0;
  uint32_t device_id = 0;
  uint32_t code = 0;
};

// Calls the program's callback, if one is set, on the calling thread.
void NotifyException(ExceptionInfo info);

}  // namespace twin
