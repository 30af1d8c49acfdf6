// Qwen3-MoE: Qwen3's attention; a softmax over all experts, the weights of the chosen ones renormalised if
// the config says so; some layers may be dense.
#include "models/decoder.h"

namespace trireme {

LayerGraph Qwen3Moe(const HfConfig& config) {
  RefuseWindows(config);
  DecoderSpec decoder = CommonDecoder(config);
  decoder.attention.qk_norm = true;
  decoder.attention.qkv_bias = config.Flag("attention_bias", false);
  decoder.attention.output_bias = decoder.attention.qkv_bias;
  ExpertsSpec experts = CommonExperts(config, decoder.attention.hidden);
  experts.ffn = config.Size("moe_intermediate_size");
  experts.router.normalise = config.Flag("norm_topk_prob", false);
  return DecoderGraph(config, SparseLayers(config, decoder, experts));
}

}  // namespace trireme
