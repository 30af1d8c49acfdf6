#include "stages/ppo_check.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/config/compare.h"
#include "core/config/schema.h"
#include "stages/preference_check.h"

namespace trireme {
namespace {

constexpr char kRewardModelPrefix[] = "model:";
constexpr char kOfPolicy[] = "policy";  // as a value model
constexpr const char* kPpoKeys[] = {"rl.value_model",
                                    "rl.gamma",
                                    "rl.lam",
                                    "rl.vf_coef",
                                    "rl.cliprange_value",
                                    "rl.whiten_rewards",
                                    "rl.missing_eos_penalty",
                                    "rl.kl_estimator",
                                    "rl.kl_target",
                                    "rl.kl_horizon"};

void RefuseIfSet(const Config& config, const std::string& key, const std::string& why) {
  for (const KeyDifference& set : DifferingKeys(DefaultConfig(), config)) {
    if (set.key == key) throw InputError(key, " has no part in this run: ", why, "; leave it out");
  }
}

// What other stages of rl honour.
void RefuseOthersKeys(const Config& config) {
  RefuseIfSet(config, "rl.level", "stage ppo takes each token's ratio");
  RefuseIfSet(config, "rl.mask_truncated", "stage ppo has rl.missing_eos_penalty for completions without an end");
  RefuseIfSet(config, "rl.max_resample_times", "stage ppo compares completions with values, not with each other");
  RefuseIfSet(config, "rl.environment", "stage ppo trains completions of one turn");
}

}  // namespace

bool PolicyHasValues(const Config& config) {
  return config.stage() == STAGE_PPO && config.rl().value_model() == kOfPolicy;
}

bool HasValueModel(const Config& config) { return config.stage() == STAGE_PPO && !PolicyHasValues(config); }

std::string ValueModelOf(const Config& config) {
  if (!config.rl().value_model().empty()) return config.rl().value_model();
  for (const std::string& reward : config.rl().rewards()) {
    if (reward.starts_with(kRewardModelPrefix)) return reward.substr(std::size(kRewardModelPrefix) - 1);
  }
  throw InputError(
      "rl.value_model is empty, and rl.rewards has no model:DIR to start from; name the directory of a reward ",
      "model, such as one of stage rm, or write ", kOfPolicy, " for a value head on the policy's own layers");
}

void CheckPpo(const Config& config) {
  const RlConfig& rl = config.rl();
  if (config.stage() != STAGE_PPO) {
    for (const char* key : kPpoKeys) RefuseIfSet(config, key, "it is for stage ppo");
    return;
  }
  RefuseOthersKeys(config);
  if (!PolicyHasValues(config)) ValueModelOf(config);
  if (rl.beta() == 0) {
    for (const char* key : {"rl.kl_estimator", "rl.kl_target", "rl.kl_horizon"}) {
      RefuseIfSet(config, key, "with rl.beta = 0 there is no KL in the reward");
    }
  }
  if (rl.kl_target() == 0) RefuseIfSet(config, "rl.kl_horizon", "rl.kl_target is 0");
  if (config.optimizer().update() == UPDATE_IN_BACKWARD && !PolicyHasValues(config)) {
    throw InputError(
        "optimizer.update: in_backward: stage ppo updates policy and value model together, or neither; leave it ",
        "out, or write rl.value_model: ", kOfPolicy);
  }
}

}  // namespace trireme
