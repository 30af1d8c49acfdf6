#include "parallel/graph/costs.h"

#include <variant>

namespace trireme {
namespace {

struct CountProducts {
  int64_t operator()(const EmbeddingSpec&) const { return 0; }
  int64_t operator()(const DecoderSpec& spec) const {
    return Of(spec.attention) + (spec.experts ? Of(*spec.experts) : Of(spec.mlp));
  }
  static int64_t Of(const AttentionSpec& attention) {
    if (attention.latent) return Of(*attention.latent, attention);
    const int64_t query = attention.heads * attention.head_dim;
    const int64_t key_value = 2 * attention.kv_heads * attention.head_dim;
    const int64_t output = query;
    return attention.hidden * (query + key_value + output);
  }
  static int64_t Of(const LatentSpec& latent, const AttentionSpec& attention) {
    const int64_t query = attention.heads * latent.head_dim(), value = attention.heads * latent.value_dim;
    const int64_t queries =
        latent.query_rank == 0 ? attention.hidden * query : latent.query_rank * (attention.hidden + query);
    return queries + attention.hidden * (latent.kv_rank + latent.turned_dim) +
           latent.kv_rank * (attention.heads * latent.own_dim + value) + value * attention.hidden;
  }
  static int64_t Of(const MlpSpec& spec) { return 3 * spec.hidden * spec.ffn; }
  // Of a token: it passes top_k of the experts.
  static int64_t Of(const ExpertsSpec& spec) {
    return spec.hidden * (3 * (spec.router.top_k * spec.ffn + spec.shared_ffn) + spec.router.experts +
                          (spec.shared_gate ? 1 : 0));
  }
  int64_t operator()(const MtpSpec& spec) const {
    const int64_t hidden = spec.decoder.attention.hidden;
    return 2 * hidden * hidden + (*this)(spec.decoder);
  }
  int64_t operator()(const HeadSpec& spec) const { return (1 + spec.depths) * spec.hidden * spec.vocabulary; }
};

double AttentionFlops(const Layer& layer, double length) {
  const DecoderSpec* decoder = DecoderOf(layer.spec);
  if (decoder == nullptr) return 0;
  const AttentionSpec& attention = decoder->attention;
  const int64_t key = attention.latent ? attention.latent->head_dim() : attention.head_dim;
  const int64_t value = attention.latent ? attention.latent->value_dim : attention.head_dim;
  // Queries with keys, then weights with values, over the lower triangle.
  return 2 * static_cast<double>(attention.heads * (key + value)) * length * length / 2;
}

}  // namespace

int64_t ProductParameters(const Layer& layer) { return std::visit(CountProducts{}, layer.spec); }

double ForwardFlops(const Layer& layer, int64_t length) {
  const auto tokens = static_cast<double>(length);
  return 2 * static_cast<double>(ProductParameters(layer)) * tokens + AttentionFlops(layer, tokens);
}

double ModelFlops(const LayerGraph& graph, int64_t rows, int64_t length) {
  double sum = 0;
  for (const Layer& layer : graph.layers) {
    const bool frozen = layer.trained && layer.trained->empty();
    sum += (frozen ? 2 : 3) * ForwardFlops(layer, length);
  }
  return sum * static_cast<double>(rows);
}

}  // namespace trireme
