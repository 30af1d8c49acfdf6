// What the decoder families share: a stack of layers between an embedding and a head, under the names that
// most Hugging Face models use. A family changes what differs in it.
#pragma once

#include <utility>
#include <vector>

#include "models/hf_config.h"
#include "parallel/graph/graph.h"

namespace trireme {

// The specification of every layer, from the keys that all these families have.
DecoderSpec CommonDecoder(const HfConfig& config);

// Embedding, num_hidden_layers times `decoder`, head.
LayerGraph DecoderGraph(const HfConfig& config, const DecoderSpec& decoder);

// Role of a weight to its name below "model.layers.N.", where a family's is not the common one. In names of
// experts "{expert}" stands for the number.
using LayerNames = std::vector<std::pair<const char*, const char*>>;

// The same with one specification a layer.
LayerGraph DecoderGraph(const HfConfig& config, const std::vector<DecoderSpec>& decoders,
                        const LayerNames& names = {});

// The layer of files' index `index` for the token `depth` + 1 places on.
Layer MtpLayer(size_t index, int64_t depth, const DecoderSpec& decoder, const LayerNames& names);

// `dense` num_hidden_layers times, with `experts` in those layers that Qwen's keys decoder_sparse_step and
// mlp_only_layers name.
std::vector<DecoderSpec> SparseLayers(const HfConfig& config, const DecoderSpec& dense,
                                      const ExpertsSpec& experts);

// Sizes of a softmax router that most families spell alike; the number of experts is under either key.
ExpertsSpec CommonExperts(const HfConfig& config, int64_t hidden);

}  // namespace trireme
