// Attention with its input norm: queries, keys and values projected from the hidden state; each key-value
// head serves a group of query heads.
#include <algorithm>

#include "core/base/error.h"
#include "parallel/graph/blocks/blocks.h"
#include "parallel/graph/declarer.h"

namespace trireme {
namespace {

class Attention : public LayerBlock {
 public:
  explicit Attention(const AttentionSpec& spec) : spec_(spec) {}

  void Declare(Declarer& declare) const override {
    const Block query = declare.Heads("attention heads", spec_.heads, spec_.head_dim);
    const Block asked = declare.Heads("attention heads", spec_.heads, QueryWidth());
    const Block key = declare.Heads("key-value heads", spec_.kv_heads, spec_.head_dim);
    if (spec_.norms.input) declare.Norm("attention_norm.weight", spec_.hidden, spec_.norms.offset);
    if (spec_.qkv_by_group) {
      const int64_t group = (spec_.heads / spec_.kv_heads + 2) * spec_.head_dim;
      declare.Columns("attention.qkv", {"attention.qkv"}, {declare.OwnHeads(spec_.kv_heads, group)}, spec_.hidden,
                      spec_.qkv_bias);
    } else {
      declare.Columns("attention.qkv", {"attention.q", "attention.k", "attention.v"}, {asked, key, key}, spec_.hidden,
                      spec_.qkv_bias);
    }
    if (spec_.qk_norm || spec_.late_qk_norm) {
      declare.HeadNorm("attention.q_norm.weight", spec_.head_dim, spec_.norms.offset);
      declare.HeadNorm("attention.k_norm.weight", spec_.head_dim, spec_.norms.offset);
    }
    if (spec_.wide_qk_norm) {
      declare.SplitNorm("attention.q_norm.weight", query);
      declare.SplitNorm("attention.k_norm.weight", key);
    }
    if (spec_.sinks) declare.PerHead("attention.sinks.weight", declare.Heads("attention heads", spec_.heads, 1));
    declare.Rows("attention.output", spec_.hidden, query, spec_.output_bias);
    if (spec_.norms.output) declare.Norm("attention_output_norm.weight", spec_.hidden, spec_.norms.offset);
  }

  int64_t MatMulParameters() const override {
    const int64_t query = spec_.heads * QueryWidth(), key_value = 2 * spec_.kv_heads * spec_.head_dim;
    const int64_t output = spec_.heads * spec_.head_dim;
    return spec_.hidden * (query + key_value + output);
  }

  // QKᵀ, then the attention weights with V, over the lower triangle, or its part within the window.
  double AttentionFlops(double length) const override {
    const double window = spec_.window > 0 ? std::min<double>(static_cast<double>(spec_.window), length) : length;
    const double pairs = window * length - window * window / 2;
    return 2 * static_cast<double>(spec_.heads * (spec_.head_dim + spec_.head_dim)) * pairs;
  }

  // The input, its norm as the projections read it, queries, keys and values before and after the rotary
  // embedding (the former for the norms' gradients, or if the device keeps both), once more where they are rearranged
  // in between, and the attention output; what its own norm reads.
  SavedElements Saved(const ActivationShape& shape) const override {
    const int64_t input = spec_.hidden * shape.TokensBetween(), norm = spec_.hidden * shape.tokens;
    const int64_t queries = HeadsHere(spec_.heads, shape) * spec_.head_dim;
    const int64_t keys = HeadsHere(spec_.kv_heads, shape) * spec_.head_dim;
    const int64_t copies = (shape.qkv_once && !spec_.qk_norm ? 1 : 2) +
                           (spec_.wide_qk_norm || spec_.late_qk_norm || spec_.norms.offset != 0 ? 1 : 0);
    const int64_t output = spec_.norms.output ? input : 0;
    const int64_t heads = copies * (queries + 2 * keys) * shape.tokens, attended = queries * shape.tokens;
    // With a gate: it, its sigmoid, the product and its two sides.
    const int64_t gate = spec_.output_gate ? 4 * attended : 0;
    return SavedElements::Of(input + norm + heads + attended + gate + output, norm + (spec_.output_gate ? 0 : attended),
                             input);
  }

  // The norm with the residual sum before it, and the rotary embedding of queries, keys and values as they are split
  // into heads.
  MovedElements Moved(const ActivationShape& shape) const override {
    const int64_t norm = spec_.hidden * shape.TokensBetween() * (spec_.norms.output ? 2 : 1);
    const int64_t heads = (HeadsHere(spec_.heads, shape) + 2 * HeadsHere(spec_.kv_heads, shape)) * spec_.head_dim;
    const int64_t turned = 2 * heads * shape.tokens;
    return {.forward = 4 * norm + turned, .backward = 6 * norm + turned};
  }

  std::string ToText() const override {
    return Concat("attention ", spec_.heads, " heads of ", spec_.head_dim, " (", spec_.kv_heads, " key-value",
                  spec_.window > 0 ? Concat(", window ", spec_.window) : "",
                  spec_.soft_cap > 0 ? Concat(", soft cap ", spec_.soft_cap) : "", spec_.sinks ? ", sinks" : "",
                  spec_.output_gate ? ", gated" : "", ")");
  }

 private:
  // Of a head of the query projection, which also has the gate.
  int64_t QueryWidth() const { return spec_.output_gate ? 2 * spec_.head_dim : spec_.head_dim; }

  // With fewer heads than ranks, adjacent ranks share one.
  static int64_t HeadsHere(int64_t heads, const ActivationShape& shape) {
    return heads / std::min(heads, shape.tensor);
  }

  const AttentionSpec spec_;
};

}  // namespace

BlockPointer AttentionBlock(const AttentionSpec& spec) { return std::make_unique<Attention>(spec); }

}  // namespace trireme
