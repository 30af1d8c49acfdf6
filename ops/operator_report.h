// Which version of each operator would run here, and why not the ones before it: what `trireme check --ops`
// shows. No torch in the interface.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme {

struct OperatorReport {
  std::string op, dtype, shape;
  std::string impl;                                           // cpu, torch_npu, ascendc or aten
  std::vector<std::pair<std::string, std::string>> declined;  // version, why
};

// For tensors of the cpu, or of npu `npu_device` where that is not negative and torch_npu is in the process.
std::vector<OperatorReport> ReportOperators(int npu_device);

}  // namespace trireme
