// Buckets of Megatron's distributed optimizer as torch_dist has them (dp_reshardable), or as one pickled value
// (dp_zero_gather_scatter): flat buffers of each tensor-, pipeline- and expert-parallel rank.
#pragma once

#include "checkpoint/megatron/dist_reader.h"
#include "checkpoint/megatron/states.h"

namespace trireme {

// Refuses a checkpoint without the run's arguments, which say what the ranks are.
void ReadDistBuckets(DistReader& reader, const MegatronCheckpoint& checkpoint, MegatronStates& states);

}  // namespace trireme
