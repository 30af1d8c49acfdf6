// GPT-OSS: attention with sinks and biases, a sliding window in every other layer; experts in every layer, with biases
// and a clamped SwiGLU whose gate and up alternate. Files hold all experts of a layer in one tensor, in swapped order,
// or packed as MXFP4 (checkpoint/mxfp4.cc).
#include "core/base/error.h"
#include "models/decoder.h"
#include "models/layer_kinds.h"

namespace trireme {
namespace {

constexpr int64_t kUnsaidWindow = 128;  // transformers' defaults
constexpr double kUnsaidTheta = 150000;

RopeSpec UnsaidRope(const HfConfig& config, int64_t head_dim) {
  const Json yarn = {{"rope_type", "yarn"}, {"factor", 32.0},    {"beta_fast", 32.0},
                     {"beta_slow", 1.0},    {"truncate", false}, {"original_max_position_embeddings", 4096}};
  const RopeSpec rope{.theta = config.Number("rope_theta", kUnsaidTheta), .rotary_dim = head_dim};
  return HfConfig(yarn, config.source()).RopeHere(rope, {});
}

// Keys of released files that transformers does not know.
void CheckReleasedKeys(const HfConfig& config, int64_t top_k) {
  if (config.Has("experts_per_token")) config.Only("experts_per_token", top_k);
  config.Unused({"initial_context_length"});
}

ExpertsSpec ExpertsOf(const HfConfig& config, const MlpSpec& mlp) {
  ExpertsSpec experts = CommonExperts(config, mlp.hidden);
  experts.ffn = mlp.ffn;
  experts.router.normalise = true;  // a softmax over the chosen experts' logits
  experts.router_bias = true;
  experts.bias = true;
  experts.activation = MlpSpec::Activation::kClampedSwiglu;
  experts.clamp = config.Number("swiglu_limit", 7.0);
  experts.alpha = config.Number("swiglu_alpha", 1.702);
  if (experts.clamp <= 0) {
    throw InputError(config.source(), ": swiglu_limit = ", experts.clamp, "; wanted a positive limit of gate and up");
  }
  return experts;
}

}  // namespace

LayerGraph GptOss(const HfConfig& config) {
  const bool has_rope = config.Has("rope_parameters") || config.Has("rope_scaling");
  DecoderSpec decoder =
      CommonDecoder(config, {.norm_eps = 1e-5, .head_dim = 64, .theta = kUnsaidTheta, .reads_rope = has_rope});
  AttentionSpec& attention = decoder.attention;
  if (!has_rope) attention.rope = UnsaidRope(config, attention.head_dim);
  attention.qkv_bias = attention.output_bias = config.Flag("attention_bias", true);
  attention.sinks = true;
  decoder.experts = ExpertsOf(config, decoder.mlp);
  CheckReleasedKeys(config, decoder.experts->router.top_k);
  std::vector<DecoderSpec> decoders;
  for (const std::string& kind : KindsOfLayers(config, 2)) {
    decoders.push_back(decoder);
    if (kind == kFullAttention) continue;
    if (config.IsNull("sliding_window")) {
      throw InputError(config.source(), ": sliding_window is null, and layer_types has layers with one; set its size");
    }
    decoders.back().attention.window = config.Size("sliding_window", kUnsaidWindow);
  }
  config.Unused({"sliding_window"});  // where no layer has one
  return DecoderGraph(config, decoders,
                      {{"attention.sinks.weight", "self_attn.sinks"},
                       {"router.weight", "mlp.router.weight"},
                       {"router.logit_bias", "mlp.router.bias"},
                       {"experts.gate_up.weight", "mlp.experts.gate_up_proj"},
                       {"experts.gate_up.bias", "mlp.experts.gate_up_proj_bias"},
                       {"experts.down.weight", "mlp.experts.down_proj"},
                       {"experts.down.bias", "mlp.experts.down_proj_bias"},
                       {"experts.gate.weight", ""},
                       {"experts.up.weight", ""}});
}

}  // namespace trireme
