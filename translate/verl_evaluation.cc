#include "translate/verl_evaluation.h"

#include <cstdlib>
#include <utility>

#include "core/base/error.h"
#include "translate/verl_common.h"

namespace trireme {
namespace {

const std::string kValidation = "actor_rollout_ref.rollout.val_kwargs.";

std::string OriginOf(const Given& given, const std::string& name, const std::string& otherwise) {
  const Setting* setting = given.Find(name);
  return setting == nullptr ? otherwise : setting->origin;
}

// Greedy unless do_sample.
void SetValidationSampling(const Given& given, Translation& result) {
  const double completions = given.Number(kValidation + "n", 1);
  if (completions > 1) result.Set("eval.completions", completions, OriginOf(given, kValidation + "n", "val_kwargs.n"));
  if (!given.IsOn(kValidation + "do_sample")) return;
  for (const char* name : {"temperature", "top_p"}) {
    if (const Setting* setting = given.Find(kValidation + name)) To(Concat("eval.", name))(*setting, result);
  }
  if (const Setting* setting = given.Find(kValidation + "top_k")) NeverAsMinusOne("eval.top_k")(*setting, result);
}

double UpdatesPerSampling(const Translation& result) {
  const auto number = [&](const char* key) { return std::strtod(result.value(key, "1").c_str(), nullptr); };
  return number("rl.steps_per_generation") * number("rl.iterations");
}

// Keys that count steps there.
void CountUpdates(const Given& given, double updates, Translation& result) {
  if (updates <= 1) return;
  for (const auto& [theirs, ours] :
       {std::pair("trainer.total_training_steps", "run.steps"), std::pair("trainer.save_freq", "save.every")}) {
    const double count = std::strtod(result.value(ours, "0").c_str(), nullptr);
    if (count > 0)
      result.Set(ours, count * updates, Concat(OriginOf(given, theirs, theirs), " x ", updates, " updates"));
  }
}

void CustomReward(const Setting& setting, Translation& result) {
  if (setting.off()) return;
  result.Set("rl.rewards", std::vector<std::string>{Concat("python:", setting.value())}, setting.origin);
}

void SetFunctionName(const Given& given, Translation& result) {
  for (const char* section : {"reward.custom_reward_function.", "custom_reward_function."}) {
    const Setting* path = given.Find(Concat(section, "path"));
    if (path == nullptr || path->off()) continue;
    const std::string name = given.Value(Concat(section, "name"), "compute_score");
    result.Set("rl.rewards", std::vector<std::string>{Concat("python:", path->value(), ":", name)}, path->origin);
  }
}

}  // namespace

std::vector<RuleRow> VerlEvaluationRows() {
  return {
      {"data.val_files trainer.test_freq trainer.val_before_train", Elsewhere()},
      {kValidation + "*", Elsewhere()},
      {"trainer.val_only", Missing("trireme evaluate --generate evaluates without training")},
      {"trainer.log_val_generations", NotNeeded("predictions-STEP.jsonl has all completions of an evaluation")},
      {"reward.custom_reward_function.path custom_reward_function.path", CustomReward},
      {"reward.custom_reward_function.name custom_reward_function.name", Elsewhere()},
      {"reward.custom_reward_function.* custom_reward_function.*", Missing("arguments of a reward function")},
  };
}

void FinishVerlEvaluation(const Given& given, Translation& result) {
  const double updates = UpdatesPerSampling(result), every = given.Number("trainer.test_freq", -1);
  CountUpdates(given, updates, result);
  SetFunctionName(given, result);
  const bool first = given.IsOn("trainer.val_before_train", true);
  const Setting* files = given.Find("data.val_files");
  if (files == nullptr || (every <= 0 && !first)) return;
  result.Set("data.valid", files->values, files->origin);
  if (every > 0) {
    const std::string origin = OriginOf(given, "trainer.test_freq", "trainer.test_freq");
    result.Set("eval.every", every * updates, updates > 1 ? Concat(origin, " x ", updates, " updates") : origin);
  }
  if (first) {
    result.Set("eval.at_start", std::string("true"),
               OriginOf(given, "trainer.val_before_train", "trainer.val_before_train is on by default"));
  }
  SetValidationSampling(given, result);
}

}  // namespace trireme
