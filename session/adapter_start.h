// How new adapters start from the weights beside them: PiSSA, OLoRA, and the magnitudes of DoRA. Each weight
// is put together over the ranks of its pipeline stage, one of them decomposes it, and all take their parts of the
// result: so every layout starts with the same. Rules as in PEFT.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/tensor_source.h"
#include "core/comm/communicator.h"
#include "core/plan/adapter.h"
#include "parallel/layers/weights.h"

namespace trireme {

struct AdapterStart {
  const AdapterPlan& adapter;
  Communicator& stage;                    // all ranks that have parts of the same layers
  int rank = 0;                           // in the world
  uint64_t seed = 0;                      // of a randomised decomposition
  const TensorSource* initial = nullptr;  // what adapters started with when the run began; nullptr: it begins
};

// entries: those of one layer, with full values that are not sealed yet: adapters get their start, and the weights
// beside them lose it. Collective over the stage.
void StartAdapters(const std::vector<Weights::Entry*>& entries, const AdapterStart& start);

}  // namespace trireme
