#include "ops/operator_report.h"

#include <ATen/ops/empty.h>

#include "core/base/error.h"
#include "ops/ascendc/heads.h"
#include "ops/choose.h"
#include "ops/cpu/heads.h"
#include "ops/switches.h"

namespace trireme {
namespace {

struct Shape {
  std::string op, text;
  Against against;
};

// A usual shape of each operator, and those that some version declines.
std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (const std::string& op : OperatorNames()) {
    if (op == "heads") continue;
    const bool flat = op == "adamw" || op == "accumulate" || op == "gradient_norm";
    const std::string text = flat ? "[any]" : "[any, any]";
    shapes.push_back({op, text, {.vendor = op == "rms_norm" || op == "swiglu"}});
  }
  for (const uint64_t dim : {128, 576, 2048}) {
    const char* why = ascendc::WhyNotHeads({1, 1, 1, 1, dim, dim / 2, 1e-6f});
    const bool large = dim > static_cast<uint64_t>(cpu::kLargestHead);
    shapes.push_back(
        {"heads",
         Concat("[any, heads of ", dim, "]"),
         {.loops = large ? "heads are larger than 512 elements" : "", .kernel = why == nullptr ? "" : why}});
  }
  shapes.push_back({"cross_entropy", "[any, 0]", {.kernel = "no column counts"}});
  return shapes;
}

}  // namespace

std::vector<OperatorReport> ReportOperators(int npu_device) {
  const at::Device device = npu_device < 0
                                ? at::Device(at::kCPU)
                                : at::Device(at::kPrivateUse1, static_cast<at::DeviceIndex>(npu_device));
  const std::pair<at::ScalarType, const char*> types[] = {
      {at::kFloat, "fp32"}, {at::kBFloat16, "bf16"}, {at::kHalf, "fp16"}};
  std::vector<OperatorReport> report;
  for (const Shape& shape : Shapes()) {
    for (const auto& [type, name] : types) {
      const bool fp32_only = shape.op == "gradient_norm" || shape.op == "accumulate" || shape.op == "adamw";
      if (fp32_only && type != at::kFloat) continue;
      const Choice choice =
          Choose(shape.op, at::empty({0}, at::TensorOptions(type).device(device)), shape.against);
      OperatorReport line{shape.op, name, shape.text, NameOf(choice.version), {}};
      for (const Declined& declined : choice.declined)
        line.declined.emplace_back(NameOf(declined.version), declined.why);
      report.push_back(std::move(line));
    }
  }
  return report;
}

}  // namespace trireme
