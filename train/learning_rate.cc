#include "train/learning_rate.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace trireme {

void CheckLearningRate(const OptimizerConfig& config) {
  if (config.min_lr() <= config.lr()) return;
  throw InputError("optimizer.min_lr = ", config.min_lr(), " is above optimizer.lr = ", config.lr(),
                   "; the rate decays to min_lr: lower it");
}

double LearningRate(const OptimizerConfig& config, int64_t step, int64_t total_steps) {
  TRIREME_CHECK(step >= 1 && step <= total_steps) << "step " << step << " of " << total_steps;
  const double lr = config.lr(), min_lr = config.min_lr();
  const int64_t warmup = std::llround(config.warmup() * static_cast<double>(total_steps));
  if (step < warmup) return lr * static_cast<double>(step) / static_cast<double>(warmup);
  const int64_t top = config.reach_min_lr() ? std::max<int64_t>(warmup, 1) : warmup + 1;
  const int64_t bottom = config.reach_min_lr() ? total_steps : total_steps + 1;
  if (step <= top) return lr;
  const double way = static_cast<double>(step - top) / static_cast<double>(bottom - top);  // (0, 1]
  switch (config.schedule()) {
    case LR_CONSTANT:
      return lr;
    case LR_LINEAR:
      return lr - (lr - min_lr) * way;
    case LR_COSINE:
      return min_lr + (lr - min_lr) * (1 + std::cos(M_PI * way)) / 2;
  }
  TRIREME_CHECK(false) << "learning-rate schedule " << config.schedule();
  return 0;
}

}  // namespace trireme
