#include "ops/operator_report.h"

#include <ATen/ops/empty.h>

#include "core/base/error.h"
#include "ops/ascendc/heads.h"
#include "ops/choose.h"
#include "ops/cpu/heads.h"
#include "ops/low_rank.h"
#include "ops/router.h"
#include "ops/switches.h"

namespace trireme {
namespace {

struct Shape {
  std::string op, text;
  Against against;
};

bool IsFlat(const std::string& op) { return op == "adamw" || op == "accumulate" || op == "gradient_norm"; }

// A usual shape of each operator, and those that some version declines.
std::vector<Shape> Shapes(const at::Tensor& like) {
  std::vector<Shape> shapes;
  for (const std::string& op : OperatorNames()) {
    if (op == "heads" || op == "router" || op == "low_rank") continue;
    shapes.push_back(
        {op, IsFlat(op) ? "[any]" : "[any, any]", {.vendor = op == "rms_norm" || op == "swiglu"}});
  }
  for (const uint64_t dim : {128, 576, 2048}) {
    const char* no_kernel = ascendc::WhyNotHeads({1, 1, 1, 1, dim, dim / 2, 1e-6f});
    const char* no_loops = cpu::WhyNotHeads(static_cast<int64_t>(dim), static_cast<int64_t>(dim / 2));
    shapes.push_back(
        {"heads",
         Concat("[any, heads of ", dim, "]"),
         {.loops = no_loops == nullptr ? "" : no_loops, .kernel = no_kernel == nullptr ? "" : no_kernel}});
  }
  shapes.push_back({"cross_entropy", "[any, 0]", {.kernel = "no column counts"}});
  for (const int64_t experts : {128, 8192}) {
    shapes.push_back({"router", Concat("[any, ", experts, " experts]"),
                      AgainstRouter(like, {.experts = experts, .top_k = 8})});
  }
  for (const int64_t ranks : {16, 512}) {
    shapes.push_back({"low_rank", Concat("[any, ", ranks, " ranks]"), AgainstLowRank(like, ranks, false)});
  }
  shapes.push_back({"low_rank", "[any, of experts]", AgainstLowRank(like, 16, true)});
  return shapes;
}

}  // namespace

std::vector<OperatorReport> ReportOperators(const std::string& device) {
  const std::pair<at::ScalarType, const char*> types[] = {
      {at::kFloat, "fp32"}, {at::kBFloat16, "bf16"}, {at::kHalf, "fp16"}};
  std::vector<OperatorReport> report;
  for (const auto& [type, name] : types) {
    const at::Tensor like = at::empty({0}, at::TensorOptions(type).device(at::Device(device)));
    for (const Shape& shape : Shapes(like)) {
      const bool fp32_only = IsFlat(shape.op) || shape.op == "router" || shape.op == "attention_merge";
      if (fp32_only && type != at::kFloat) continue;
      const Choice choice = Choose(shape.op, like, shape.against);
      OperatorReport line{shape.op, name, shape.text, NameOf(choice.version), {}};
      for (const Declined& declined : choice.declined)
        line.declined.emplace_back(NameOf(declined.version), declined.why);
      report.push_back(std::move(line));
    }
  }
  return report;
}

}  // namespace trireme
