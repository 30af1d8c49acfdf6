#include "core/tensor/kernel_times.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <map>
#include <set>

namespace trireme {

std::vector<KernelTime> TimeKernels(const std::function<void()>& work) {
  using torch::profiler::impl::ActivityType;
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<ActivityType> activities = {ActivityType::CPU, ActivityType::CUDA};
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities);
  work();
  const auto result = torch::autograd::profiler::disableProfiler();
  std::map<std::string, KernelTime> by_name;
  for (const auto& event : result->events()) {
    if (event.deviceType() == c10::DeviceType::CPU) continue;
    KernelTime& time = by_name[event.name()];
    time.name = event.name();
    ++time.calls;
    time.seconds += static_cast<double>(event.durationNs()) * 1e-9;
  }
  std::vector<KernelTime> times;
  for (const auto& [name, time] : by_name) times.push_back(time);
  std::sort(times.begin(), times.end(), [](const KernelTime& a, const KernelTime& b) { return a.seconds > b.seconds; });
  return times;
}

}  // namespace trireme
