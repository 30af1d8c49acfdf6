#include "stages/policy_check.h"

#include <algorithm>
#include <string_view>

#include "core/base/error.h"
#include "core/base/text.h"
#include "parallel/objectives/policy_losses.h"
#include "stages/distillation_check.h"
#include "stages/evaluation_check.h"
#include "stages/ppo_check.h"
#include "stages/preference_check.h"
#include "stages/sampler_check.h"
#include "stages/stage.h"

namespace trireme {
namespace {

void CheckPolicyLoss(const Config& config) {
  const RlConfig& rl = config.rl();
  const PolicyLossKind* loss = FindPolicyLoss(rl.loss());
  if (loss == nullptr) {
    throw InputError("rl.loss: ", rl.loss(), " is not known; wanted one of ", Join(PolicyLossNames()));
  }
  if (loss->term == PolicyTerm::kCispo && rl.epsilon_high() <= 1) {
    throw InputError("rl.epsilon_high = ", rl.epsilon_high(), ": with cispo it is the largest ratio itself; write 5");
  }
  if (rl.delta() > 0 && rl.delta() <= 1 + rl.epsilon_high()) {
    throw InputError("rl.delta = ", rl.delta(), "; wanted above 1 + rl.epsilon_high = ", 1 + rl.epsilon_high(),
                     ", or 0 for none");
  }
  if (rl.entropy_coef() > 0 && rl.top_entropy_quantile() < 1) {
    throw InputError("rl.entropy_coef = ", rl.entropy_coef(),
                     ": the bonus is over all tokens, and rl.top_entropy_quantile = ", rl.top_entropy_quantile(),
                     " leaves some out; leave one of them out");
  }
  if (rl.temperature() <= 0) {
    throw InputError("rl.temperature = ", rl.temperature(),
                     "; wanted above 0: completions are drawn, not the likeliest");
  }
  if (rl.sampler_clip_min() > rl.sampler_clip_max()) {
    throw InputError("rl.sampler_clip_min = ", rl.sampler_clip_min(),
                     " is above rl.sampler_clip_max = ", rl.sampler_clip_max());
  }
}

// Updates, samplings and groups divide each other.
void CheckPolicySizes(const Config& config) {
  const RlConfig& rl = config.rl();
  if (rl.group() < 2 && config.stage() != STAGE_PPO) {
    throw InputError("rl.group = ", rl.group(),
                     ": a completion is compared with the others of its prompt; write 2 or more");
  }
  if (config.run().global_batch() % rl.group() != 0) {
    throw InputError("run.global_batch = ", config.run().global_batch(),
                     " completions per step is not a multiple of rl.group = ", rl.group(), "; write ",
                     std::max(config.run().global_batch() / rl.group(), 1) * rl.group());
  }
  const int64_t steps = StepsPerSampling(rl);
  const auto want = [&](const char* key, int64_t value) {
    if (value % steps == 0) return;
    throw InputError(key, " = ", value, " parts the steps that share completions; wanted a multiple of ",
                     "rl.steps_per_generation x rl.iterations = ", steps);
  };
  want("run.steps", config.run().steps());
  want("save.every", config.save().every());
  want("save.hf_every", config.save().hf_every());
  if (!rl.reward_weights().empty() && rl.reward_weights_size() != rl.rewards_size()) {
    throw InputError("rl.reward_weights has ", rl.reward_weights_size(), " numbers for ", rl.rewards_size(),
                     " names in rl.rewards; wanted one each, or none");
  }
}

// What has no part in a run whose completions are given.
void CheckGivenCompletions(const Config& config) {
  if (!config.rl().environment().empty() && !config.rl().rollouts().empty()) {
    throw InputError("rl.environment: the completions of rl.rollouts are given; leave one of them out");
  }
  if (config.rl().max_resample_times() > 0 && !config.rl().rollouts().empty()) {
    throw InputError("rl.max_resample_times = ", config.rl().max_resample_times(),
                     ": the completions of rl.rollouts are given; leave one of them out");
  }
  if (!config.data().train().empty() && !config.rl().rollouts().empty()) {
    throw InputError("data.train: rl.rollouts has the prompts; leave one of them out");
  }
}

void CheckPolicyReference(const Config& config) {
  if (config.reference() == "none" && config.rl().beta() > 0) {
    throw InputError("rl.beta = ", config.rl().beta(), " needs a reference, and reference: none; write one of them");
  }
  const bool named = config.reference() != "base" && config.reference() != "none";
  if (config.rl().beta() == 0 && named) {
    throw InputError("reference: ", config.reference(), ": with rl.beta = 0 nothing is compared with it; leave it out");
  }
  if (config.reference() == "start" && config.tuning().kind() != TUNING_LORA) {
    throw InputError("reference: start is for tuning.kind: lora; elsewhere base is the same, write that");
  }
  const MemoryConfig& memory = config.memory();
  if ((memory.offload_reference() || memory.shard_reference()) && !NeedsSecondModel(config)) {
    throw InputError("memory.", memory.offload_reference() ? "offload" : "shard",
                     "_reference: true: this run has no second model as its reference; leave it out");
  }
}

}  // namespace

int64_t GroupOf(const Config& config) { return config.stage() == STAGE_GKD ? 1 : config.rl().group(); }

std::optional<std::string> RewardModelIn(const std::string& name) {
  constexpr std::string_view kModel = "model:";
  if (!name.starts_with(kModel)) return std::nullopt;
  if (name.size() == kModel.size()) throw InputError("rl.rewards has 'model:' without a directory; write model:DIR");
  return name.substr(kModel.size());
}

int64_t StepsPerSampling(const RlConfig& rl) { return int64_t{rl.steps_per_generation()} * rl.iterations(); }

int64_t PromptsPerSampling(const Config& config) {
  return int64_t{config.run().global_batch()} * config.rl().steps_per_generation() / GroupOf(config);
}

bool HasKlLoss(const Config& config) { return config.stage() == STAGE_GRPO && config.rl().beta() > 0; }

bool NeedsOldLogProbs(const Config& config) {
  if (config.stage() == STAGE_GKD) return false;
  if (config.stage() == STAGE_PPO) return true;
  const bool in_reward = config.rl().beta() > 0 && !HasKlLoss(config);
  return StepsPerSampling(config.rl()) > 1 || config.rl().sampler_correction() != CORRECTION_NONE || in_reward;
}

void CheckPolicy(const Config& config) {
  if (!FactsOf(config).on_completions()) return;
  if (config.stage() == STAGE_GKD) {
    CheckDistillation(config);
  } else {
    CheckPolicyLoss(config);
    CheckPolicySizes(config);
    CheckPolicyReference(config);
    CheckPpo(config);
  }
  CheckGivenCompletions(config);
  CheckCompletionEvaluation(config);
  CheckSampler(config);
}

}  // namespace trireme
