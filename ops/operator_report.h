// Which implementation of each operator would run here, and why not the ones before it: what `trireme check
// --ops` shows. Made from the operators' own lists. No torch in the interface.
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

// For tensors of a device as torch spells it ("cpu", "cuda:0"), which is open in this process.
std::vector<OperatorReport> ReportOperators(const std::string& device);

// The operators and their lists in Markdown, as docs/kernels.md has them.
std::string OperatorTable();

}  // namespace trireme
