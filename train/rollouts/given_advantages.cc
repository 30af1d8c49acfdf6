#include "train/rollouts/given_advantages.h"

#include <cmath>

#include "core/base/error.h"
#include "data/model_images.h"
#include "stages/stage.h"
#include "train/rollouts/rollout_file.h"

namespace trireme {

std::vector<Rollout> ReadGivenAdvantages(const std::string& path, int64_t vocabulary, const Config& config) {
  std::vector<Rollout> rollouts =
      ReadRollouts(path, {.vocabulary = vocabulary, .ends = {}, .images = ImageReaderOf(config.model())});
  const bool known = !rollouts.front().log_probs.empty();
  for (size_t i = 0; i < rollouts.size(); ++i) {
    const bool taught = FactsOf(config).method == MethodKind::kDistillation;
    if (taught && (rollouts[i].advantage || !rollouts[i].log_probs.empty())) {
      throw InputError(path, ":", i + 1,
                       ": has an advantage or old_logprobs, which have no part in stage gkd; leave them out");
    }
    if (taught) continue;
    if (!rollouts[i].advantage || !std::isfinite(*rollouts[i].advantage)) {
      throw InputError(path, ":", i + 1, ": has no advantage; wanted a number");
    }
    if (rollouts[i].log_probs.empty() == known) {
      throw InputError(path, ":", i + 1, ": has ", known ? "no " : "",
                       "old_logprobs, other than line 1; wanted them on all lines, or on none");
    }
  }
  if (!known && config.rl().sampler_correction() != CORRECTION_NONE) {
    throw InputError(path, ": has no old_logprobs, which rl.sampler_correction needs");
  }
  return rollouts;
}

}  // namespace trireme
