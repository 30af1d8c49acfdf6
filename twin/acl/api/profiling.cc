// aclprof…: the profiling functions that torch_npu's profiler looks up. The twin measures nothing: a run
// under the profiler succeeds, with the call order that CANN requires checked, and its trace holds what torch
// itself recorded, without a device part. It leaves the folder that CANN's profiler leaves, in which torch_npu looks
// for the clocks at the start; twin/tools/profiler has the command that exports it.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
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
  std::filesystem::path folder;
  bool made = false;
  bool running = false;
};

Profiler& profiler() {
  static auto* profiler = new Profiler;
  return *profiler;
}

template <typename Unit>
int64_t Ticks(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::chrono::duration_cast<Unit>(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec))
      .count();
}

// PROF_<number>_<time>_<letters>/host/start_info: the time in us, and the clock that events are stamped with in ns.
aclError MakeResultFolder(const char* function, const std::filesystem::path& in) {
  static int number = 0;
  const int64_t micros = Ticks<std::chrono::microseconds>(CLOCK_REALTIME);
  char name[96];
  std::snprintf(name, sizeof name, "PROF_%06d_%lld_TWIN%d", ++number, static_cast<long long>(micros), getpid());
  const std::filesystem::path host = in / name / "host";
  std::error_code error;
  std::filesystem::create_directories(host, error);
  std::ofstream info(host / "start_info");
  info << "{\"collectionTimeBegin\": \"" << micros << "\", \"clockMonotonicRaw\": \""
       << Ticks<std::chrono::nanoseconds>(CLOCK_MONOTONIC_RAW) << "\"}\n";
  if (!info.flush()) return Fail(ACL_ERROR_INVALID_FILE, function, Text("cannot write ", host.string(), "/start_info"));
  return ACL_SUCCESS;
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
  if (on) TWIN_TRY(MakeResultFolder(function, state.folder));
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
  state.folder = path;
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
