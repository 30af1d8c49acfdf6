#include "cost/step_text.h"

#include <cmath>
#include <iomanip>
#include <sstream>
#include <utility>
#include <vector>

namespace trireme {
namespace {

std::vector<std::pair<const char*, double>> Named(const StepParts& parts) {
  return {{"products", parts.passes.products}, {"attention", parts.passes.attention},
          {"rest", parts.passes.rest},         {"tensor", parts.passes.tensor},
          {"context", parts.passes.context},   {"expert", parts.passes.expert},
          {"pipeline", parts.pipeline},        {"data", parts.data},
          {"optimizer", parts.optimizer},      {"sampling", parts.sampling}};
}

}  // namespace

Json ToJson(const StepEstimate& step) {
  Json parts = Json::object();
  for (const auto& [name, seconds] : Named(step.parts)) parts[name] = seconds;
  return {{"step_seconds", step.step_seconds},
          {"tokens_per_second", step.tokens_per_second},
          {"tflops", step.tflops},
          {"memory_gib", step.memory_gib},
          {"parts", parts}};
}

Json ToJson(const StepPhases& phases) {
  return {{"sampling", phases.sampling},  {"forward", phases.forward}, {"both", phases.both},
          {"backward", phases.backward},  {"weight", phases.weight},   {"bubble", phases.bubble},
          {"optimizer", phases.optimizer}};
}

std::string ToText(const StepEstimate& step, const DeviceRates& device, int world) {
  constexpr double kBar = 50;
  std::ostringstream out;
  out << std::fixed << std::setprecision(3) << "a step on " << world << " x " << device.name << ": "
      << step.step_seconds << " s, " << std::setprecision(0) << step.tokens_per_second << " tokens/s, "
      << std::setprecision(1) << step.tflops << " TFLOP/s per rank (" << 100 * step.tflops / device.peak_tflops
      << " % of the peak), " << step.memory_gib << " GiB of " << device.memory_gib << "\n";
  for (const auto& [name, seconds] : Named(step.parts)) {
    const double share = seconds / step.step_seconds;
    if (share < 5e-4) continue;
    out << "  " << std::left << std::setw(10) << name << std::right << std::setw(10) << std::setprecision(4) << seconds
        << " s " << std::setw(5) << std::setprecision(1) << 100 * share << " %  "
        << std::string(static_cast<size_t>(std::lround(kBar * share)), '#') << "\n";
  }
  return out.str();
}

}  // namespace trireme
