// The learning rate of each step: warm-up, then the way down. A function of the step alone, so that a resumed
// run goes on where it stopped.
#pragma once

#include <cstdint>

#include "core/config.pb.h"

namespace trireme {

// Refuses a rate that would rise at the end.
void CheckLearningRate(const OptimizerConfig& config);

// Steps count from 1. Over the first w = round(warmup · total_steps) steps the rate rises in a straight
// line: step s has lr · s / w. Behind them it falls, as half a cosine wave or in a straight line, or it
// stays: step s has gone (s - w - 1) of the total_steps - w parts of the way to min_lr. So the step after the
// last would have min_lr, and the last one is not wasted where that is 0. These are the rates of Hugging
// Face's schedules and of Megatron's, but for the warm-up: their first step of it has 0, and each further one
// what ours has a step earlier. With reach_min_lr the last step of the warm-up, or the first of all, is the
// one to fall from, and the last of all has min_lr.
double LearningRate(const OptimizerConfig& config, int64_t step, int64_t total_steps);

}  // namespace trireme
