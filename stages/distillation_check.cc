#include "stages/distillation_check.h"

#include <string>

#include "core/base/error.h"
#include "stages/other_layout.h"

namespace trireme {

bool DistillationSamples(const Config& config) {
  return config.distillation().lambda() > 0 || config.distillation().seq_kd();
}

bool HasTeacherLayout(const Config& config) {
  return config.stage() == STAGE_GKD && IsLayout(config.distillation().layout());
}

Config UnderTeacherLayout(const Config& config) {
  Config other = UnderLayout(config, config.distillation().layout());
  if (config.memory().shard_reference()) other.mutable_parallel()->set_zero(3);
  other.mutable_model()->set_path(config.distillation().teacher());
  other.mutable_model()->set_init(MODEL_INIT_WEIGHTS);
  other.mutable_tuning()->Clear();
  other.mutable_tuning()->set_kind(TUNING_FULL);
  return other;
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
  if (HasTeacherLayout(config) && SameLayout(config.parallel(), UnderTeacherLayout(config).parallel())) {
    throw InputError("distillation.layout has no part in this run: it is the layout of parallel; leave it out");
  }
  if (DistillationSamples(config) && config.parallel().context() > 1) {
    throw InputError("parallel.context = ", config.parallel().context(),
                     ": no answers are sampled under context parallelism; ",
                     "write 1, or distillation.lambda: 0 without seq_kd");
  }
}

}  // namespace trireme
