// aclprof…: the profiling functions that torch_npu's profiler looks up. The twin measures nothing: a run
// under the profiler succeeds, with the call order that CANN requires checked, and its trace holds what torch
// itself recorded, without a device part.
#include <filesystem>
#include <memory>
#include <mutex>

#include "acl/acl.h"
#include "acl/acl_prof.h"
#include "twin/acl/runtime/error.h"
#include "twin/acl/runtime/runtime.h"

using twin::Fail;
using twin::FailNull;
using twin::Text;

struct aclprofConfig {
  uint64_t data_types = 0;
};

struct aclprofStepInfo {};

namespace {

struct Profiler {
  std::mutex mutex;
  bool made = false;
  bool running = false;
};

Profiler& profiler() {
  static auto* profiler = new Profiler;
  return *profiler;
}

aclError Switch(const char* function, const aclprofConfig* config, bool on) {
  if (config == nullptr) return FailNull(function, "profilerConfig");
  Profiler& state = profiler();
  std::lock_guard lock(state.mutex);
  if (!state.made) return Fail(ACL_ERROR_PROF_NOT_RUN, function, "called before aclprofInit");
  if (state.running == on) {
    return on ? Fail(ACL_ERROR_PROF_ALREADY_RUN, function, "profiling is already running")
              : Fail(ACL_ERROR_PROF_NOT_RUN, function, "profiling is not running");
  }
  state.running = on;
  return ACL_SUCCESS;
}

}  // namespace

aclError aclprofInit(const char* profilerResultPath, size_t length) {
  TWIN_TRY(twin::RequireInit(__func__));
  if (profilerResultPath == nullptr) return FailNull(__func__, "profilerResultPath");
  const std::string path(profilerResultPath, length);
  if (std::error_code error; !std::filesystem::is_directory(path, error)) {
    return Fail(ACL_ERROR_INVALID_FILE, __func__, Text("'", path, "' is not a writable directory"));
  }
  Profiler& state = profiler();
  std::lock_guard lock(state.mutex);
  if (state.made) return Fail(ACL_ERROR_REPEAT_INITIALIZE, __func__, "called twice without aclprofFinalize in between");
  state.made = true;
  return ACL_SUCCESS;
}

aclError aclprofFinalize() {
  Profiler& state = profiler();
  std::lock_guard lock(state.mutex);
  if (!state.made) return Fail(ACL_ERROR_PROF_NOT_RUN, __func__, "called before aclprofInit");
  state.made = state.running = false;
  return ACL_SUCCESS;
}

aclError aclprofStart(const aclprofConfig* profilerConfig) { return Switch(__func__, profilerConfig, true); }
aclError aclprofStop(const aclprofConfig* profilerConfig) { return Switch(__func__, profilerConfig, false); }

aclprofConfig* aclprofCreateConfig(uint32_t*, uint32_t, aclprofAicoreMetrics, aclprofAicoreEvents*,
                                   uint64_t dataTypeConfig) {
  return std::make_unique<aclprofConfig>(aclprofConfig{.data_types = dataTypeConfig}).release();
}

aclError aclprofDestroyConfig(const aclprofConfig* profilerConfig) {
  std::unique_ptr<const aclprofConfig> owned(profilerConfig);
  return profilerConfig == nullptr ? FailNull(__func__, "profilerConfig") : ACL_SUCCESS;
}

aclError aclprofMarkEx(const char* msg, size_t, aclrtStream) {
  return msg == nullptr ? FailNull(__func__, "msg") : ACL_SUCCESS;
}

aclprofStepInfo* aclprofCreateStepInfo() { return std::make_unique<aclprofStepInfo>().release(); }
void aclprofDestroyStepInfo(aclprofStepInfo* stepinfo) { std::unique_ptr<aclprofStepInfo> owned(stepinfo); }

aclError aclprofGetStepTimestamp(aclprofStepInfo* stepInfo, aclprofStepTag, aclrtStream) {
  return stepInfo == nullptr ? FailNull(__func__, "stepInfo") : ACL_SUCCESS;
}
