#include "train/step/learning_rate.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr int64_t kInverseSqrtSteps = 10000;  // without a warm-up

// From 1 to 0 over a way from 0 to 1.
double CosineLeft(double way) { return (1 + std::cos(M_PI * way)) / 2; }

double DecayLeft(LrDecay shape, double way) {
  switch (shape) {
    case DECAY_COSINE:
      return CosineLeft(way);
    case DECAY_LINEAR:
      return 1 - way;
    case DECAY_SQRT:
      return 1 - std::sqrt(way);
  }
  TRIREME_CHECK(false) << "shape of the decay " << shape;
  return 0;
}

int64_t WarmupSteps(const OptimizerConfig& config, int64_t total_steps) {
  if (config.warmup_steps() > 0) return std::min<int64_t>(config.warmup_steps(), total_steps);
  return std::llround(config.warmup() * static_cast<double>(total_steps));
}

// The decay's part of a way from 0 to 1 over the steps after the warm-up: its last `decay` of all steps.
double DecayPart(const OptimizerConfig& config, double way, int64_t steps, int64_t total_steps) {
  const double whole = std::min(config.decay() * static_cast<double>(total_steps), static_cast<double>(steps));
  const double done = way * static_cast<double>(steps) - (static_cast<double>(steps) - std::round(whole));
  return whole < 0.5 ? 0 : std::clamp(done / std::round(whole), 0.0, 1.0);
}

}  // namespace

void CheckLearningRate(const OptimizerConfig& config) {
  if (config.min_lr() > config.lr()) {
    throw InputError("optimizer.min_lr = ", config.min_lr(), " is above optimizer.lr = ", config.lr(),
                     "; the rate decays to min_lr: lower it");
  }
  if (config.warmup_steps() > 0 && config.warmup() > 0) {
    throw InputError("optimizer.warmup = ", config.warmup(), " and optimizer.warmup_steps = ", config.warmup_steps(),
                     " both say how long the rate rises; remove one of them");
  }
}

double LearningRate(const OptimizerConfig& config, int64_t step, int64_t total_steps) {
  TRIREME_CHECK(step >= 1 && step <= total_steps) << "step " << step << " of " << total_steps;
  const double lr = config.lr(), min_lr = config.min_lr();
  const int64_t warmup = WarmupSteps(config, total_steps);
  if (step < warmup) return lr * static_cast<double>(step) / static_cast<double>(warmup);
  const int64_t top = config.reach_min_lr() ? std::max<int64_t>(warmup, 1) : warmup + 1;
  const int64_t bottom = config.reach_min_lr() ? total_steps : total_steps + 1;
  if (step <= top) return lr;
  const double way = static_cast<double>(step - top) / static_cast<double>(bottom - top);  // (0, 1]
  const auto from_lr = [&](double left) { return min_lr + (lr - min_lr) * left; };
  switch (config.schedule()) {
    case LR_CONSTANT:
      return lr;
    case LR_LINEAR:
      return from_lr(1 - way);
    case LR_COSINE:
      return from_lr(CosineLeft(way));
    case LR_WSD:
      return from_lr(DecayLeft(config.decay_shape(), DecayPart(config, way, bottom - top, total_steps)));
    case LR_COSINE_WITH_RESTARTS:
      return from_lr(way < 1 ? CosineLeft(std::fmod(config.cycles() * way, 1.0)) : 0);
    case LR_POLYNOMIAL:
      return from_lr(std::pow(1 - way, config.power()));
    case LR_RELATIVE_STEP:
      return std::max(min_lr, std::min(lr, 1 / std::sqrt(static_cast<double>(step))));
    case LR_INVERSE_SQRT: {
      const auto scale = static_cast<double>(warmup > 0 ? warmup : kInverseSqrtSteps);
      return std::max(min_lr, lr * std::sqrt(scale / (scale + static_cast<double>(step - top))));
    }
  }
  TRIREME_CHECK(false) << "learning-rate schedule " << config.schedule();
  return 0;
}

}  // namespace trireme
