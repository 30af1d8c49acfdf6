#include "parallel/graph/costs.h"

#include <variant>

namespace trireme {
namespace {

struct CountProducts {
  int64_t operator()(const EmbeddingSpec&) const { return 0; }
  int64_t operator()(const DecoderSpec& spec) const {
    const AttentionSpec& attention = spec.attention;
    const int64_t query = attention.heads * attention.head_dim;
    const int64_t key_value = 2 * attention.kv_heads * attention.head_dim;
    const int64_t output = query;
    return attention.hidden * (query + key_value + output) +
           (spec.experts ? Of(*spec.experts) : Of(spec.mlp));
  }
  static int64_t Of(const MlpSpec& spec) { return 3 * spec.hidden * spec.ffn; }
  // Of a token: it passes top_k of the experts.
  static int64_t Of(const ExpertsSpec& spec) {
    return spec.hidden * (3 * (spec.router.top_k * spec.ffn + spec.shared_ffn) + spec.router.experts +
                          (spec.shared_gate ? 1 : 0));
  }
  int64_t operator()(const HeadSpec& spec) const { return spec.hidden * spec.vocabulary; }
};

double AttentionFlops(const Layer& layer, double length) {
  const auto* decoder = std::get_if<DecoderSpec>(&layer.spec);
  if (decoder == nullptr) return 0;
  const double width = static_cast<double>(decoder->attention.heads * decoder->attention.head_dim);
  return 2 * (2 * width * length * length / 2);  // queries with keys, then weights with values
}

}  // namespace

int64_t ProductParameters(const Layer& layer) { return std::visit(CountProducts{}, layer.spec); }

double ForwardFlops(const Layer& layer, int64_t length) {
  const auto tokens = static_cast<double>(length);
  return 2 * static_cast<double>(ProductParameters(layer)) * tokens + AttentionFlops(layer, tokens);
}

double ModelFlops(const LayerGraph& graph, int64_t rows, int64_t length) {
  double forward = 0;
  for (const Layer& layer : graph.layers) forward += ForwardFlops(layer, length);
  return 3 * forward * static_cast<double>(rows);
}

}  // namespace trireme
