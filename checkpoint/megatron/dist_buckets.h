// Buckets of Megatron's distributed optimizer as torch_dist has them (dp_reshardable), or as one pickled value
// (dp_zero_gather_scatter): flat buffers of each tensor-, pipeline- and expert-parallel rank.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/megatron/dist_reader.h"
#include "checkpoint/megatron/states.h"

namespace trireme {

inline constexpr std::string_view kChain = "chained_";
// Without the "chained_N." of one of several optimizers.
std::string WithoutChain(const std::string& key);

// Refuses a checkpoint without the run's arguments, which say what the ranks are.
void ReadDistBuckets(DistReader& reader, const MegatronCheckpoint& checkpoint, MegatronStates& states);

}  // namespace trireme
