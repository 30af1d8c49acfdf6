// What a search found, for people and for programs.
#include <cmath>
#include <iomanip>
#include <sstream>

#include "core/base/text.h"
#include "cost/search.h"
#include "cost/step_text.h"

namespace trireme {
namespace {

// The section parallel, without keys that have their defaults.
Json ParallelOf(const Layout& layout) {
  Json section = Json::object();
  const auto add = [&](const char* key, int value, int usual) {
    if (value != usual) section[key] = value;
  };
  add("tensor", layout.tensor, 1);
  add("pipeline", layout.pipeline, 1);
  add("context", layout.context, 1);
  add("expert", layout.expert, 1);
  add("expert_tensor", layout.expert_tensor, 1);
  if (layout.context > 1 && layout.ulysses > 1) {
    section["context_method"] = layout.ulysses == layout.context ? "ulysses" : "hybrid";
    if (layout.ulysses < layout.context) section["ulysses"] = layout.ulysses;
  }
  if (layout.schedule != "1f1b") section["schedule"] = layout.schedule;
  add("virtual_stages", layout.virtual_stages, 1);
  section["zero"] = layout.zero;
  add("replicas", layout.replicas, 1);
  return section;
}

Json MemoryOf(const Layout& layout) {
  Json section = {{"recompute", RecomputeName(layout.recompute)}};
  if (layout.offload_optimizer) section["offload_optimizer"] = true;
  return section;
}

std::string Yaml(const char* name, const Json& section) {
  std::string text = Concat(name, ":\n");
  for (const auto& [key, value] : section.items()) {
    text += Concat("  ", key, ": ", value.is_string() ? value.get<std::string>() : JsonLine(value), "\n");
  }
  return text;
}

// The part of the time in which the second spends most beyond the first.
std::string WhySlower(const FoundLayout& first, const FoundLayout& second) {
  const Json a = ToJson(first.step).at("parts"), b = ToJson(second.step).at("parts");
  std::string worst;
  double most = 0;
  for (const auto& [name, seconds] : b.items()) {
    const double more = seconds.get<double>() - a.at(name).get<double>();
    if (more > most) std::tie(worst, most) = std::pair(name, more);
  }
  if (worst.empty()) return "the next takes as long\n";
  std::ostringstream out;
  out << std::fixed << std::setprecision(4) << "the next is slower by "
      << second.step.step_seconds - first.step.step_seconds << " s: " << worst << " takes " << most << " s more\n";
  return out.str();
}

}  // namespace

const char* RecomputeName(Recompute recompute) {
  return recompute == RECOMPUTE_NONE ? "none" : recompute == RECOMPUTE_SELECTIVE ? "selective" : "full";
}

Json ToJson(const FoundLayout& found, const Config& config) {
  Json json = ToJson(found.step);
  json["parallel"] = ParallelOf(found.layout);
  json["memory"] = MemoryOf(found.layout);
  json["run"] = {{"micro_batch", found.layout.micro_batch}, {"global_batch", config.run().global_batch()}};
  return json;
}

std::string ToText(const SearchResult& result, const Config& config, const DeviceRates& device, int world) {
  std::ostringstream out;
  out << "best of " << result.considered << " layouts of " << world << " x " << device.name << ":\n"
      << "   step s   tokens/s  TFLOP/s    GiB  layout\n";
  for (const FoundLayout& found : result.found) {
    Json keys = ParallelOf(found.layout);
    keys.update(MemoryOf(found.layout));
    keys["micro_batch"] = found.layout.micro_batch;
    out << std::fixed << std::setw(9) << std::setprecision(3) << found.step.step_seconds << std::setw(11)
        << std::setprecision(0) << found.step.tokens_per_second << std::setw(9) << std::setprecision(1)
        << found.step.tflops << std::setw(7) << found.step.memory_gib << "  ";
    std::string text;
    for (const auto& [key, value] : keys.items()) {
      text += Concat(text.empty() ? "" : " ", key, "=", value.is_string() ? value.get<std::string>() : JsonLine(value));
    }
    out << text << "\n";
  }
  if (result.found.size() > 1) out << WhySlower(result.found[0], result.found[1]);
  const Layout& best = result.found.front().layout;
  out << ToText(result.found.front().step, device, world) << Yaml("parallel", ParallelOf(best))
      << Yaml("memory", MemoryOf(best))
      << Yaml("run", {{"micro_batch", best.micro_batch}, {"global_batch", config.run().global_batch()}});
  return out.str();
}

}  // namespace trireme
