// What a device's kernels took while some work ran, by name: torch's own profiler (CUPTI on an NVIDIA GPU).
// Where torch has no profiler for the device, the list is empty.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trireme {

struct KernelTime {
  std::string name;
  int64_t calls = 0;
  double seconds = 0;  // of all calls
};

// Runs `work`, which waits for the device at its end. Most time first.
std::vector<KernelTime> TimeKernels(const std::function<void()>& work);

}  // namespace trireme
