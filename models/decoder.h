// What the decoder families share: a stack of layers between an embedding and a head, under the names that
// most Hugging Face models use. A family overrides what differs.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "models/hf_config.h"
#include "parallel/graph/graph.h"

namespace trireme {

// How a family reads the keys that all of them share: transformers' defaults, and what else its rotary embedding knows.
struct CommonTraits {
  double norm_eps = 1e-6;
  int64_t head_dim = 0;                      // 0: hidden_size / num_attention_heads
  std::optional<double> rotary_factor = {};  // of partial rotary embeddings; nullopt: it has none
  double theta = 1e4;                        // base of the rotary embedding
  bool ntk_alpha = false;                    // its "dynamic" rotary scaling has a fixed alpha
  bool phi3_rope = false;                    // HfConfig::RopeTraits::phi3
  bool reads_rope = true;                    // false: the family does
  bool reads_dropout = true;                 // likewise, of attention_dropout
  const char* activation = "silu";           // what hidden_act may say
  bool sections = false;                     // M-RoPE, which tells nothing apart in text
  int64_t ffn = 0;                           // where the config has no intermediate_size; 0: it must have one
};

// The specification of every layer, from the keys that all these families share.
DecoderSpec CommonDecoder(const HfConfig& config, const CommonTraits& traits = {});

// Embedding, num_hidden_layers times `decoder`, head.
LayerGraph DecoderGraph(const HfConfig& config, const DecoderSpec& decoder);

// Maps a weight's role to its name below "model.layers.N.", where a family differs from the common one. In
// names of experts, "{expert}" stands for the number. An empty name: the family has no such weight.
using LayerNames = std::vector<std::pair<const char*, const char*>>;

// Of norms at the end of each branch alone.
LayerNames OutputNormNames();

// The same with one specification per layer.
LayerGraph DecoderGraph(const HfConfig& config, const std::vector<DecoderSpec>& decoders, const LayerNames& names = {});

// The mtp layer at index `index` in the files, which predicts the token `depth` + 1 positions ahead.
Layer MtpLayer(size_t index, int64_t depth, const DecoderSpec& decoder, const LayerNames& names);

// `dense` num_hidden_layers times, with `experts` in the layers that Qwen's keys decoder_sparse_step and
// mlp_only_layers select.
std::vector<DecoderSpec> SparseLayers(const HfConfig& config, const DecoderSpec& dense, const ExpertsSpec& experts);

// `decoder` num_hidden_layers times, with the sliding window of Qwen's keys in the layers that have one: those from
// max_window_layers on, or those that layer_types lists.
std::vector<DecoderSpec> WindowedLayers(const HfConfig& config, const DecoderSpec& decoder);

// For families whose layers may have windows, of which none is supported with experts.
void RefuseWindows(const HfConfig& config);

// A softmax router's sizes, which most families spell alike; either key may hold the number of experts.
ExpertsSpec CommonExperts(const HfConfig& config, int64_t hidden);

}  // namespace trireme
