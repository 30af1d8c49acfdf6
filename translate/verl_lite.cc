// Layouts of Megatron Lite, verl's mlite_actor: sizes by their short names, and an optimizer that says what is sharded.
#include "translate/verl_common.h"

namespace trireme {
namespace {

// [full], or modules that are recomputed, by name.
void LiteRecomputation(const Setting& setting, Translation& result) {
  if (setting.off() || setting.values.empty())
    return result.Set("memory.recompute", std::string("none"), setting.origin);
  const bool full = setting.value() == "full";
  if (!full)
    result.Warn(setting.origin, "modules by name there; memory.recompute: selective chooses what is recomputed here");
  result.Set("memory.recompute", std::string(full ? "full" : "selective"), setting.origin);
}

}  // namespace

std::vector<RuleRow> VerlLiteRows(const std::string& section) {
  return {
      {section + "tp", To("parallel.tensor")},
      {section + "pp", To("parallel.pipeline")},
      {section + "vpp", VerlVirtualStages},
      {section + "cp", To("parallel.context")},
      {section + "ep", To("parallel.expert")},
      {section + "etp", To("parallel.expert_tensor")},
      {section + "optimizer_offload", IfOn("rl.offload_optimizer", "true")},
      {section + "impl_cfg.optimizer", Map("parallel.zero", {{"fsdp2", "3"}, {"dist_opt", "1"}})},
      {section + "impl_cfg.recompute", LiteRecomputation},
      {In(section, "param_offload grad_offload"), NotNeeded("this program samples with the weights that it trains")},
      {section + "*", NotNeeded("nothing here depends on it")},
  };
}

}  // namespace trireme
