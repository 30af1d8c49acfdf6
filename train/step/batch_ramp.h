// BatchRamp: how many sequences a step has while the batch grows to its full size (run.batch_ramp), by the rule of
// Megatron's
// --rampup-batch-size. Plain numbers, no torch.
#pragma once

#include <cstdint>

#include "core/config.pb.h"

namespace trireme {

struct BatchRamp {
  int64_t batch = 1;  // in the end
  int64_t start = 0;  // 0: there is no ramp
  int64_t increment = 0;
  int64_t samples = 0;  // over which it grows

  // Of a step before which the run has trained on so many sequences.
  int64_t BatchAfter(int64_t consumed) const;
  bool operator==(const BatchRamp&) const = default;
};

BatchRamp BatchRampOf(const RunConfig& run);

// Refuses numbers that make no ramp, and stages whose batches have one size.
void CheckBatchRamp(const Config& config);

}  // namespace trireme
