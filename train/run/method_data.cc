#include "train/run/method_data.h"

#include "stages/stage.h"
#include "train/methods/distillation/taught_prompts.h"
#include "train/methods/policy/policy_prompts.h"

namespace trireme {

std::optional<DataSets> OpenMethodData(const Config& config, const DataPlace& place) {
  const StageFacts& facts = FactsOf(config);
  if (facts.on_completions() ? !HasPrompts(config) : config.data().train().empty()) return {};
  if (facts.on_completions()) {
    const bool taught = facts.method == MethodKind::kDistillation;
    const Prompts prompts = taught ? OpenTaught(config, place) : OpenPrompts(config, place);
    ProbeRewards(config, prompts);
    return prompts.data;
  }
  return OpenDataSets(config, place);
}

}  // namespace trireme
