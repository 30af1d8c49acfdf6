// Mixtral: Llama's attention without biases; every layer has experts, and the weights of the chosen ones
// always sum to 1; optionally a sliding window over all layers. Files name an expert's matrices w1 (gate), w3 (up) and
// w2 (down).
#include "models/decoder.h"

namespace trireme {

LayerGraph Mixtral(const HfConfig& config) {
  DecoderSpec decoder = CommonDecoder(config);
  decoder.attention.window = config.Has("sliding_window") ? config.Size("sliding_window") : 0;
  ExpertsSpec experts = CommonExperts(config, decoder.attention.hidden);
  experts.ffn = decoder.mlp.ffn;
  experts.router.normalise = true;
  decoder.experts = experts;
  return DecoderGraph(config, std::vector<DecoderSpec>(config.Size("num_hidden_layers"), decoder),
                      {{"router.weight", "block_sparse_moe.gate.weight"},
                       {"experts.gate.weight", "block_sparse_moe.experts.{expert}.w1.weight"},
                       {"experts.up.weight", "block_sparse_moe.experts.{expert}.w3.weight"},
                       {"experts.down.weight", "block_sparse_moe.experts.{expert}.w2.weight"}});
}

}  // namespace trireme
