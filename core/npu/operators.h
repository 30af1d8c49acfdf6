// Which of CANN's aclnn operators the framework calls through torch_npu, and which of them this machine's
// libopapi has. torch_npu looks each up when it is first called; this checks in advance.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

struct NpuOperator {
  std::string name;   // "aclnnAdd"
  bool used = false;  // by the framework, on device npu
  bool there = false;
  // By this process so far; only the twin counts.
  uint64_t calls = 0;
  uint64_t largest_bytes = 0;  // of the largest tensor that a call was given, masks aside
};

// All that the framework uses; on the twin also all others it has.
std::vector<NpuOperator> ListNpuOperators();

}  // namespace trireme
