#include "models/delta_layers.h"

#include <string>

#include "core/base/error.h"
#include "models/layer_kinds.h"

namespace trireme {
namespace {

constexpr char kLinearAttention[] = "linear_attention";

const LayerNames kDeltaNames = {
    {"delta.qkvz.weight", "linear_attn.in_proj_qkvz.weight"}, {"delta.ba.weight", "linear_attn.in_proj_ba.weight"},
    {"delta.q.weight", "linear_attn.in_proj_qkv.weight"},     {"delta.k.weight", "linear_attn.in_proj_qkv.weight"},
    {"delta.v.weight", "linear_attn.in_proj_qkv.weight"},     {"delta.z.weight", "linear_attn.in_proj_z.weight"},
    {"delta.b.weight", "linear_attn.in_proj_b.weight"},       {"delta.a.weight", "linear_attn.in_proj_a.weight"},
    {"delta.conv.weight", "linear_attn.conv1d.weight"},       {"delta.decay.log_rate", "linear_attn.A_log"},
    {"delta.decay.time_bias", "linear_attn.dt_bias"},         {"delta.norm.weight", "linear_attn.norm.weight"},
    {"delta.output.weight", "linear_attn.out_proj.weight"}};

DeltaSpec DeltaOf(const HfConfig& config, bool fused) {
  const DeltaSpec delta{.key_heads = config.Size("linear_num_key_heads", 16),
                        .value_heads = config.Size("linear_num_value_heads", 32),
                        .key_dim = config.Size("linear_key_head_dim", 128),
                        .value_dim = config.Size("linear_value_head_dim", 128),
                        .convolution = config.Size("linear_conv_kernel_dim", 4),
                        .fused = fused};
  if (delta.value_heads % delta.key_heads == 0) return delta;
  throw InputError(config.source(), ": linear_num_value_heads = ", delta.value_heads,
                   " is not a multiple of linear_num_key_heads = ", delta.key_heads);
}

std::vector<std::string> KindsOfMixers(const HfConfig& config) {
  const auto layers = static_cast<size_t>(config.Size("num_hidden_layers"));
  const int64_t interval = config.Size("full_attention_interval", 4);
  std::vector<std::string> kinds = config.Texts("layer_types");
  if (kinds.empty()) {
    for (size_t layer = 1; layer <= layers; ++layer) {
      kinds.emplace_back(static_cast<int64_t>(layer) % interval == 0 ? kFullAttention : kLinearAttention);
    }
  }
  if (kinds.size() != layers) {
    throw InputError(config.source(), ": layer_types has ", kinds.size(), " entries; num_hidden_layers is ", layers);
  }
  for (const std::string& kind : kinds) {
    if (kind == kFullAttention || kind == kLinearAttention) continue;
    throw InputError(config.source(), ": layer_types has '", kind, "'; wanted linear_attention or full_attention");
  }
  return kinds;
}

}  // namespace

std::vector<DecoderSpec> DeltaLayers(const HfConfig& config, const CommonTraits& traits, bool fused) {
  config.Only("use_sliding_window", false);
  config.Only("attn_output_gate", true);
  config.Unused({"mtp_num_hidden_layers", "mtp_use_dedicated_embeddings", "mamba_ssm_dtype"});
  DecoderSpec decoder = CommonDecoder(config, traits);
  decoder.attention.qkv_bias = decoder.attention.output_bias = config.Flag("attention_bias", false);
  decoder.attention.qk_norm = decoder.attention.output_gate = true;
  decoder.attention.norms.offset = decoder.mlp.norms.offset = 1;
  const DeltaSpec delta = DeltaOf(config, fused);
  std::vector<DecoderSpec> decoders;
  for (const std::string& kind : KindsOfMixers(config)) {
    decoders.push_back(decoder);
    if (kind == kLinearAttention) decoders.back().attention.delta = delta;
  }
  return decoders;
}

ExpertsSpec GatedExperts(const HfConfig& config, int64_t hidden) {
  ExpertsSpec experts = CommonExperts(config, hidden);
  experts.ffn = config.Size("moe_intermediate_size", 512);
  experts.shared_ffn = config.Size("shared_expert_intermediate_size", 512);
  experts.shared_gate = true;
  return experts;
}

LayerGraph DeltaGraph(const HfConfig& config, const std::vector<DecoderSpec>& decoders) {
  LayerGraph graph = DecoderGraph(config, decoders, kDeltaNames);
  std::get<HeadSpec>(graph.layers.back().spec).norm_offset = 1;
  graph.unused = {"mtp."};  // layers that predict further tokens, as transformers leaves them out
  return graph;
}

}  // namespace trireme
