// Layers of two kinds in one model, with and without a sliding window, each with a rotary embedding of its own, as
// layer_types and rope_parameters by kind say it. Families that have one rotary embedding use models/decoder.h.
#pragma once

#include <string>
#include <vector>

#include "models/decoder.h"

namespace trireme {

// The values of layer_types.
inline constexpr char kFullAttention[] = "full_attention", kSlidingAttention[] = "sliding_attention";

struct LayerKinds {
  int64_t pattern = 1;      // without layer_types: of so many layers the last has full attention
  double full_theta = 1e4;  // base of the rotary embedding where the config has none
  double sliding_theta = 1e4;
};

// One of the two values for each layer.
std::vector<std::string> KindsOfLayers(const HfConfig& config, int64_t pattern);

// The size of the windows that some layer has; null is refused.
int64_t WindowOf(const HfConfig& config);

// No rotary embedding (NoPE): one whose positions are stretched without end, so that every angle is 0.
RopeSpec NotRotated(int64_t head_dim);

// `decoder` num_hidden_layers times, with its kind's window (sliding_window) and rotary embedding: rope_parameters by
// kind (transformers 5), or rope_theta and rope_scaling of full layers and rope_local_base_freq of the others (4).
std::vector<DecoderSpec> LayersByKind(const HfConfig& config, const DecoderSpec& decoder, const LayerKinds& kinds);

}  // namespace trireme
