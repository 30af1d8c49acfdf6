// The learning rate of each step: warm-up, then the way down. A function of the step alone, so that a resumed
// run goes on where it stopped.
#pragma once

#include <cstdint>

#include "core/config.pb.h"

namespace trireme {

// Refuses a rate that would rise at the end.
void CheckLearningRate(const OptimizerConfig& config);

// Steps count from 1. Over the first w = round(warmup · total_steps) steps the rate rises in a straight line:
// step s has lr · s / w. From the step that has lr, which without warm-up is the first, it falls to min_lr in
// the last step, as half a cosine wave or in a straight line; or it stays.
double LearningRate(const OptimizerConfig& config, int64_t step, int64_t total_steps);

}  // namespace trireme
