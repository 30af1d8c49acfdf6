// OLMoE: Llama's attention with one norm over all query heads and one over all key heads; experts in every layer,
// chosen by a softmax over all of them, whose weights are renormalised if the config says so.
#include "models/decoder.h"

namespace trireme {

LayerGraph Olmoe(const HfConfig& config) {
  config.Only("clip_qkv", nullptr);
  config.Unused({"router_z_loss_coef"});  // of training code: run.yaml's section experts decides
  DecoderSpec decoder = CommonDecoder(config, {.norm_eps = 1e-5});
  AttentionSpec& attention = decoder.attention;
  config.Only("head_dim", attention.hidden / attention.heads);  // the norms are as wide as the hidden state
  attention.qkv_bias = attention.output_bias = config.Flag("attention_bias", false);
  attention.wide_qk_norm = true;
  ExpertsSpec experts = CommonExperts(config, attention.hidden);
  experts.ffn = decoder.mlp.ffn;
  experts.router.normalise = config.Flag("norm_topk_prob", false);
  decoder.experts = experts;
  return DecoderGraph(config, decoder);
}

}  // namespace trireme
