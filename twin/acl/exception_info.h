// What aclrtSetExceptionInfoCallback's function is told about a task that failed.
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

// Calls the program's function, if it has set one, on the calling thread.
void NotifyException(ExceptionInfo info);

}  // namespace twin
