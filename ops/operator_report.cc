#include "ops/operator_report.h"

#include <ATen/ops/empty.h>

#include "ops/operator.h"

namespace trireme {

std::vector<OperatorReport> ReportOperators(const std::string& device) {
  const std::pair<at::ScalarType, const char*> types[] = {
      {at::kFloat, "fp32"}, {at::kBFloat16, "bf16"}, {at::kHalf, "fp16"}};
  std::vector<OperatorReport> report;
  for (const auto& [type, name] : types) {
    const at::Tensor like = at::empty({0}, at::TensorOptions(type).device(at::Device(device)));
    for (const Operator& op : Operators()) {
      for (const CaseReport& line : op.report(like)) {
        report.push_back({op.name, name, line.shape, line.chosen, {}});
        for (const Declined& declined : line.declined)
          report.back().declined.emplace_back(declined.implementation, declined.why);
      }
    }
  }
  return report;
}

}  // namespace trireme
