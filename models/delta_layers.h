// What Qwen3-Next and Qwen3.5 share: layers of Gated DeltaNet among layers of attention, whose output is gated; norms
// whose weights are added to 1; experts with a shared one behind a gate.
#pragma once

#include <vector>

#include "models/decoder.h"

namespace trireme {

// By layer, with one mlp. fused: DeltaSpec::fused.
std::vector<DecoderSpec> DeltaLayers(const HfConfig& config, const CommonTraits& traits, bool fused);

ExpertsSpec GatedExperts(const HfConfig& config, int64_t hidden);

LayerGraph DeltaGraph(const HfConfig& config, const std::vector<DecoderSpec>& decoders);

}  // namespace trireme
