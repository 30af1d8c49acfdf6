#include "stages/ppo_check.h"

#include "core/base/error.h"
#include "stages/policy_check.h"

namespace trireme {
namespace {

constexpr char kOfPolicy[] = "policy";  // as a value model

}  // namespace

bool PolicyHasValues(const Config& config) {
  return config.stage() == STAGE_PPO && config.rl().value_model() == kOfPolicy;
}

bool HasValueModel(const Config& config) { return config.stage() == STAGE_PPO && !PolicyHasValues(config); }

std::string ValueModelOf(const Config& config) {
  if (!config.rl().value_model().empty()) return config.rl().value_model();
  for (const std::string& reward : config.rl().rewards()) {
    if (const std::optional<std::string> directory = RewardModelIn(reward)) return *directory;
  }
  throw InputError(
      "rl.value_model is empty, and rl.rewards has no model:DIR to start from; name the directory of a reward ",
      "model, such as one of stage rm, or write ", kOfPolicy, " for a value head on the policy's own layers");
}

void CheckPpo(const Config& config) {
  if (config.stage() != STAGE_PPO) return;
  if (!PolicyHasValues(config)) ValueModelOf(config);
  if (config.optimizer().update() == UPDATE_IN_BACKWARD && !PolicyHasValues(config)) {
    throw InputError(
        "optimizer.update: in_backward: stage ppo updates policy and value model together, or neither; leave it ",
        "out, or write rl.value_model: ", kOfPolicy);
  }
}

}  // namespace trireme
