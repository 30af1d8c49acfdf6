// What families with latent attention (DeepSeek's MLA) share: its keys and its names in files. Knows no mlp and no
// experts.
#pragma once

#include "models/decoder.h"

namespace trireme {

struct LatentTraits {
  bool interleaved = true;  // LatentSpec::interleaved
  int64_t value_dim = 0;    // where the config has no v_head_dim; 0: it must have one
};

// CommonDecoder with latent attention.
DecoderSpec LatentDecoder(const HfConfig& config, const LatentTraits& traits);

LayerNames LatentNames();

}  // namespace trireme
