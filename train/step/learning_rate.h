// The learning rate of each step: warm-up, then decay. A function of the step alone, so that a resumed
// run continues where it stopped.
#pragma once

#include <cstdint>

#include "core/config.pb.h"

namespace trireme {

// Rejects a rate that would rise at the end, and two warm-ups.
void CheckLearningRate(const OptimizerConfig& config);

// Steps count from 1. Over the first w = warmup_steps or round(warmup · total_steps) steps the rate rises
// linearly: step s has lr · s / w. After them it follows its schedule from lr to min_lr: step s has decayed by (s - w -
// 1) / (total_steps - w) of the way to min_lr. So the step after the last would have min_lr, and the last one is not
// wasted if that is 0. These are the rates of Hugging Face's schedules and of Megatron's, except for the warm-up: their
// first step has rate 0, and each later one what ours has a step earlier. With reach_min_lr the decay starts at the
// last step of the warm-up, or at the first step, and the last step has min_lr.
double LearningRate(const OptimizerConfig& config, int64_t step, int64_t total_steps);

}  // namespace trireme
