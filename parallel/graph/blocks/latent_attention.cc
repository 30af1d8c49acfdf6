// Latent attention (DeepSeek's MLA) with its input norm: queries, keys and values by way of small latent
// vectors.
#include "core/base/error.h"
#include "parallel/graph/blocks/blocks.h"
#include "parallel/graph/declarer.h"

namespace trireme {
namespace {

class LatentAttention : public LayerBlock {
 public:
  explicit LatentAttention(const AttentionSpec& spec) : spec_(spec), latent_(*spec.latent) {}

  // Every rank computes the latent vectors; each rank's heads contribute a part of their gradients.
  void Declare(Declarer& declare) const override {
    const Block query = declare.OwnHeads(spec_.heads, latent_.head_dim());
    declare.Norm("attention_norm.weight", spec_.hidden);
    if (latent_.query_rank == 0) {
      declare.Columns("attention.q", {"attention.q"}, {query}, spec_.hidden, false);
    } else {
      declare.OnSharedTokens("attention.q_a.weight", latent_.query_rank, spec_.hidden);
      declare.HeadNorm("attention.q_a_norm.weight", latent_.query_rank);
      declare.Columns("attention.q_b", {"attention.q_b"}, {query}, latent_.query_rank, false);
    }
    declare.OnSharedTokens("attention.kv_a.weight", latent_.kv_rank + latent_.qk_rope_head_dim, spec_.hidden);
    declare.HeadNorm("attention.kv_a_norm.weight", latent_.kv_rank);
    declare.Columns("attention.kv_b", {"attention.kv_b"},
                    {declare.OwnHeads(spec_.heads, latent_.qk_nope_head_dim + latent_.value_dim)}, latent_.kv_rank,
                    false);
    declare.Rows("attention.output", spec_.hidden, declare.OwnHeads(spec_.heads, latent_.value_dim), false);
  }

  int64_t MatMulParameters() const override {
    const int64_t query = spec_.heads * latent_.head_dim(), value = spec_.heads * latent_.value_dim;
    const int64_t queries =
        latent_.query_rank == 0 ? spec_.hidden * query : latent_.query_rank * (spec_.hidden + query);
    return queries + spec_.hidden * (latent_.kv_rank + latent_.qk_rope_head_dim) +
           latent_.kv_rank * (spec_.heads * latent_.qk_nope_head_dim + value) + value * spec_.hidden;
  }

  // QKᵀ, then the attention weights with V, over the lower triangle.
  double AttentionFlops(double length) const override {
    const int64_t dims = latent_.head_dim() + latent_.value_dim;
    return 2 * static_cast<double>(spec_.heads * dims) * length * length / 2;
  }

  // The input, its norm, the latent vectors before and after their norms, queries, keys and values as
  // attention reads them, and the attention output.
  SavedElements Saved(const ActivationShape& shape) const override {
    const int64_t input = spec_.hidden * shape.TokensBetween(), norm = spec_.hidden * shape.tokens;
    const int64_t heads_here = spec_.heads / shape.tensor;
    const int64_t latents = 2 * (latent_.query_rank + latent_.kv_rank) + latent_.qk_rope_head_dim;
    const int64_t heads = (latents + heads_here * (2 * latent_.head_dim() + latent_.value_dim)) * shape.tokens;
    const int64_t attended = heads_here * latent_.value_dim * shape.tokens;
    return SavedElements::Of(input + norm + heads + attended, norm + attended, input);
  }

  // The norms of the hidden state and of the latent vectors, and queries, keys and values put together.
  MovedElements Moved(const ActivationShape& shape) const override {
    const int64_t norm =
        spec_.hidden * shape.TokensBetween() + (latent_.query_rank + latent_.kv_rank) * shape.tokens / 2;
    const int64_t heads = spec_.heads / shape.tensor * (2 * latent_.head_dim() + latent_.value_dim);
    return {.forward = 4 * norm + 2 * heads * shape.tokens, .backward = 6 * norm + 2 * heads * shape.tokens};
  }

  std::string ToText() const override {
    return Concat("attention ", spec_.heads, " heads of ", spec_.head_dim, " (", spec_.kv_heads, " key-value)");
  }

 private:
  const AttentionSpec spec_;
  const LatentSpec latent_;
};

}  // namespace

BlockPointer LatentAttentionBlock(const AttentionSpec& spec) { return std::make_unique<LatentAttention>(spec); }

}  // namespace trireme
