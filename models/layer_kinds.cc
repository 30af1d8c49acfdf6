#include "models/layer_kinds.h"

#include <limits>

#include "core/base/error.h"

namespace trireme {
namespace {

RopeSpec RopeOfKind(const HfConfig& config, const std::string& kind, int64_t head_dim, const LayerKinds& kinds) {
  const bool slides = kind == kSlidingAttention;
  const double theta = slides ? config.Number("rope_local_base_freq", kinds.sliding_theta)
                              : config.Number("rope_theta", kinds.full_theta);
  const RopeSpec rope{.theta = theta, .rotary_dim = head_dim};
  if (config.Has("rope_parameters")) {
    const HfConfig by_kind = config.Within("rope_parameters");
    return by_kind.Has(kind.c_str()) ? by_kind.Within(kind.c_str()).RopeHere(rope, {}) : rope;
  }
  return slides || !config.Has("rope_scaling") ? rope : config.Within("rope_scaling").RopeHere(rope, {});
}

// Keys beside the two kinds would be those of one rotary embedding for all layers.
void CheckRopeByKind(const HfConfig& config) {
  if (!config.Has("rope_parameters")) return;
  const HfConfig by_kind = config.Within("rope_parameters");
  by_kind.Unused({kFullAttention, kSlidingAttention});
  by_kind.RefuseUnread();
}

}  // namespace

std::vector<std::string> KindsOfLayers(const HfConfig& config, int64_t pattern) {
  const auto layers = static_cast<size_t>(config.Size("num_hidden_layers"));
  std::vector<std::string> kinds = config.Texts("layer_types");
  const bool told = !kinds.empty();
  for (int64_t layer = 1; !told && layer <= static_cast<int64_t>(layers); ++layer) {
    kinds.emplace_back(layer % pattern == 0 ? kFullAttention : kSlidingAttention);
  }
  if (kinds.size() != layers) {
    throw InputError(config.source(), ": layer_types has ", kinds.size(), " entries; num_hidden_layers is ", layers);
  }
  for (const std::string& kind : kinds) {
    if (kind == kFullAttention || kind == kSlidingAttention) continue;
    throw InputError(config.source(), ": layer_types has '", kind, "'; wanted full_attention or sliding_attention");
  }
  return kinds;
}

int64_t WindowOf(const HfConfig& config) {
  constexpr int64_t kUnsaidWindow = 4096;  // transformers' default
  if (config.IsNull("sliding_window")) {
    throw InputError(config.source(), ": sliding_window is null, and layer_types has layers with one; set its size");
  }
  return config.Size("sliding_window", kUnsaidWindow);
}

RopeSpec NotRotated(int64_t head_dim) {
  return {
      .rotary_dim = head_dim, .scaling = RopeSpec::Scaling::kLinear, .factor = std::numeric_limits<double>::infinity()};
}

std::vector<DecoderSpec> LayersByKind(const HfConfig& config, const DecoderSpec& decoder, const LayerKinds& kinds) {
  std::vector<DecoderSpec> decoders;
  for (const std::string& kind : KindsOfLayers(config, kinds.pattern)) {
    AttentionSpec& attention = decoders.emplace_back(decoder).attention;
    if (kind == kSlidingAttention) attention.window = WindowOf(config);
    attention.rope = RopeOfKind(config, kind, attention.head_dim, kinds);
  }
  CheckRopeByKind(config);
  // Of the kind that no layer has.
  config.Unused({"sliding_window", "rope_theta", "rope_local_base_freq", "rope_scaling"});
  return decoders;
}

}  // namespace trireme
