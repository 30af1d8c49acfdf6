// What the dense decoder families share: one stack of equal layers between an embedding and a head, under the
// names that most Hugging Face models use. A family changes what differs in it.
#pragma once

#include "models/hf_config.h"
#include "parallel/graph/graph.h"

namespace trireme {

// The specification of every layer, from the keys that all these families have.
DecoderSpec CommonDecoder(const HfConfig& config);

// Embedding, num_hidden_layers times `decoder`, head.
LayerGraph DecoderGraph(const HfConfig& config, const DecoderSpec& decoder);

}  // namespace trireme
