// Msprof…: what libraries report to CANN's profiler. As on a host whose profiler is not running, reports are
// accepted and dropped, here also counted; a callback for the profiler's start is accepted and never called.
#include <atomic>
#include <chrono>
#include <string_view>

#include "twin/acl/runtime/error.h"
#include "twin/acl/wheel_functions.h"

using twin::Fail;
using twin::FailNull;

namespace {

std::atomic<uint64_t> reports{0};

int32_t CountReport(const char* function, const void* data) {
  if (data == nullptr) return FailNull(function, "data");
  reports.fetch_add(1, std::memory_order_relaxed);
  return ACL_SUCCESS;
}

int32_t CountReportOf(const char* function, const void* data, uint32_t bytes) {
  if (bytes == 0) return Fail(ACL_ERROR_INVALID_PARAM, function, "the length is 0; wanted the data's bytes");
  return CountReport(function, data);
}

}  // namespace

int32_t MsprofReportApi(uint32_t, const void* api) { return CountReport(__func__, api); }

int32_t MsprofReportCompactInfo(uint32_t, const void* data, uint32_t bytes) {
  return CountReportOf(__func__, data, bytes);
}

int32_t MsprofReportAdditionalInfo(uint32_t, const void* data, uint32_t bytes) {
  return CountReportOf(__func__, data, bytes);
}

int32_t MsprofRegisterCallback(uint32_t, void* handler) {
  return handler == nullptr ? FailNull(__func__, "handler") : ACL_SUCCESS;
}

// FNV-1a: equal texts have equal ids in every process; 0, which means none, only for no text.
uint64_t MsprofGetHashId(const char* text, size_t length) {
  if (text == nullptr || length == 0) return 0;
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : std::string_view(text, length)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash == 0 ? 1 : hash;
}

uint64_t MsprofSysCycleTime() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

uint64_t twinProfilerReports() { return reports.load(std::memory_order_relaxed); }
