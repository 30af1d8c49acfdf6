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

// For tensors of a device as torch spells it ("cpu", "cuda:0"), which is open in this process.
std::vector<OperatorReport> ReportOperators(const std::string& device);

}  // namespace trireme
