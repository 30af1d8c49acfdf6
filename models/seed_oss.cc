// Seed-OSS: Llama's layers with a switch of its own for the bias of attention's output.
#include "models/decoder.h"

namespace trireme {
namespace {

// Of training with transformers. Released files say 0.1, which is accepted and not applied: docs/support.md.
void CheckDropout(const HfConfig& config, const char* key) {
  constexpr double kReleased = 0.1;
  if (config.Number(key, kReleased) != kReleased) config.Only(key, 0.0);
}

}  // namespace

LayerGraph SeedOss(const HfConfig& config) {
  CheckDropout(config, "attention_dropout");
  CheckDropout(config, "residual_dropout");
  DecoderSpec decoder = CommonDecoder(config, {.head_dim = 128, .reads_dropout = false});
  decoder.attention.qkv_bias = config.Flag("attention_bias", true);
  decoder.attention.output_bias = config.Flag("attention_out_bias", false);
  decoder.mlp.bias = config.Flag("mlp_bias", false);
  return DecoderGraph(config, decoder);
}

}  // namespace trireme
