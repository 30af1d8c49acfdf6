#include "translate/deepspeed.h"

#include <optional>
#include <regex>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/config/yaml_document.h"

namespace trireme {
namespace {

struct Zero {
  int stage = 0;
  bool optimizer_on_host = false, parameters_on_host = false;
};

std::optional<Zero> ByName(const std::string& text) {
  std::smatch match;
  if (!std::regex_search(text, match, std::regex("(?:^|[_/.])(?:zero|z|stage)_?([0-3])"))) return std::nullopt;
  Zero zero{.stage = std::stoi(match[1])};
  zero.optimizer_on_host = text.find("offload") != std::string::npos;
  zero.parameters_on_host = zero.optimizer_on_host && zero.stage == 3;
  return zero;
}

bool OnHost(const YAML::Node& section, const Setting& setting, Translation& result) {
  if (!section || !section.IsMap() || !section["device"]) return false;
  const std::string device = section["device"].Scalar();
  if (device == "nvme") result.Refuse(setting.origin, "offload to nvme is not supported; use cpu");
  return device == "cpu";
}

Zero ByFile(const Setting& setting, Translation& result) {
  const YAML::Node file = ParseYaml(ReadTextFile(setting.value()), {.name = setting.value()});
  if (file["fp16"] && file["fp16"]["enabled"] && file["fp16"]["enabled"].Scalar() == "true") {
    result.Refuse(setting.origin, "fp16 is not supported; use bf16");
  }
  for (const char* section : {"optimizer", "scheduler"}) {
    if (file[section])
      result.Refuse(setting.origin, Concat("its ", section, " section; name it in the run's own options"));
  }
  const YAML::Node zero = file["zero_optimization"];
  if (!zero || !zero["stage"]) return {};
  return {.stage = zero["stage"].as<int>(),
          .optimizer_on_host = OnHost(zero["offload_optimizer"], setting, result),
          .parameters_on_host = OnHost(zero["offload_param"], setting, result)};
}

}  // namespace

void SetZero(const Setting& setting, Translation& result) {
  if (setting.off()) return;
  const bool is_file = PathExists(setting.value()) && !IsDirectory(setting.value());
  const std::optional<Zero> zero = is_file ? ByFile(setting, result) : ByName(setting.value());
  if (!zero) return result.Refuse(setting.origin, "no such file here, and its name says no ZeRO stage");
  result.Set("parallel.zero", std::to_string(zero->stage), setting.origin);
  if (zero->optimizer_on_host) result.Set("memory.offload_optimizer", std::string("true"), setting.origin);
  if (zero->parameters_on_host) result.Set("memory.offload_parameters", std::string("true"), setting.origin);
  if (!is_file && setting.value().find("fp8") != std::string::npos)  // of a file the run's own options say it
    result.Refuse(setting.origin, "training in fp8 is not supported");
  if (setting.value().find("autotp") != std::string::npos)
    result.Refuse(setting.origin, "write parallel.tensor instead of autotp");
}

}  // namespace trireme
