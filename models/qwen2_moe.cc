// Qwen2-MoE: Qwen2's attention; softmax over all experts, and a shared expert whose output is scaled by a
// gate.
#include "models/decoder.h"

namespace trireme {

LayerGraph Qwen2Moe(const HfConfig& config) {
  RefuseWindows(config);
  DecoderSpec decoder = CommonDecoder(config);
  decoder.attention.qkv_bias = config.Flag("qkv_bias", true);
  ExpertsSpec experts = CommonExperts(config, decoder.attention.hidden);
  experts.ffn = config.Size("moe_intermediate_size");
  experts.router.normalise = config.Flag("norm_topk_prob", false);
  experts.shared_ffn = config.Size("shared_expert_intermediate_size");
  experts.shared_gate = true;
  return DecoderGraph(config, SparseLayers(config, decoder, experts));
}

}  // namespace trireme
