// Which implementation of each operator would run here, and why the ones before it decline: the output of
// `trireme check --ops`. Generated from the operators' own lists. No torch in the interface.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme {

struct OperatorReport {
  std::string op, dtype, shape;
  std::string impl;
  std::vector<std::pair<std::string, std::string>> declined;  // implementation, why
};

// For tensors on a device as torch spells it ("cpu", "cuda:0"), which must be open in this process.
std::vector<OperatorReport> ReportOperators(const std::string& device);

}  // namespace trireme
