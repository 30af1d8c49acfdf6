#include "stages/distillation_check.h"

#include <string>

#include "core/base/error.h"
#include "stages/other_models.h"

namespace trireme {

bool DistillationSamples(const Config& config) {
  return config.distillation().lambda() > 0 || config.distillation().seq_kd();
}

void CheckDistillation(const Config& config) {
  if (config.stage() != STAGE_GKD) return;
  const DistillationConfig& distillation = config.distillation();
  if (distillation.teacher().empty()) {
    throw InputError("distillation.teacher is empty; name the directory of the model to learn from");
  }
  if (distillation.temperature() <= 0) {
    throw InputError("distillation.temperature = ", distillation.temperature(), "; wanted above 0");
  }
  if (config.rl().temperature() <= 0) {
    throw InputError("rl.temperature = ", config.rl().temperature(),
                     "; wanted above 0: answers are drawn, not the likeliest");
  }
  if (config.data().loss() == LOSS_ALL) {
    throw InputError("data.loss: all: stage gkd trains the last answer of a conversation; leave it out");
  }
  if (RepeatsLayout(config, ModelRole::kTeacher)) {
    throw InputError("distillation.layout has no part in this run: it is the layout of parallel; leave it out");
  }
  if (DistillationSamples(config) && config.parallel().context() > 1) {
    throw InputError("parallel.context = ", config.parallel().context(),
                     ": no answers are sampled under context parallelism; ",
                     "write 1, or distillation.lambda: 0 without seq_kd");
  }
}

}  // namespace trireme
