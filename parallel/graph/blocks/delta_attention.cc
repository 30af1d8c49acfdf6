// Gated DeltaNet with its input norm, in place of attention: a state per value head that passes along the sequence.
#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "parallel/graph/blocks/blocks.h"
#include "parallel/graph/declarer.h"

namespace trireme {
namespace {

// Tokens of a sequence that are computed at once (ops/gated_delta).
constexpr int64_t kChunk = 64;

class DeltaAttention : public LayerBlock {
 public:
  explicit DeltaAttention(const AttentionSpec& spec)
      : spec_(spec),
        delta_(*spec.delta),
        key_(delta_.key_heads * delta_.key_dim),
        value_(delta_.value_heads * delta_.value_dim) {}

  // Value heads go where the key head is that serves them.
  void Declare(Declarer& declare) const override {
    const Block key = declare.OwnHeads(delta_.key_heads, delta_.key_dim);
    const Block value = declare.OwnHeads(delta_.key_heads, value_ / delta_.key_heads);
    declare.Norm("attention_norm.weight", spec_.hidden, spec_.norms.offset);
    DeclareProjections(declare, key, value);
    declare.Convolution("delta.conv.weight", {key, key, value}, delta_.convolution);
    // Rates between 1/16 and 16.
    declare.PerHead("delta.decay.log_rate", delta_.value_heads, {Initial::Kind::kUniform, std::log(16.0)});
    declare.PerHead("delta.decay.time_bias", delta_.value_heads, {Initial::Kind::kOnes});
    declare.HeadNorm("delta.norm.weight", delta_.value_dim);
    declare.Rows("delta.output", spec_.hidden, value, false);
  }

  int64_t MatMulParameters() const override {
    return spec_.hidden * (2 * key_ + 2 * value_ + 2 * delta_.value_heads + value_);
  }

  // By chunks: pairs of tokens in a chunk (keys with keys and queries, the system, its solution, what queries read),
  // and the state read by keys and queries and written.
  double AttentionFlops(double length) const override {
    const double chunk = std::min(length, static_cast<double>(kChunk));
    const auto pairs = static_cast<double>(2 * key_ + delta_.value_heads * kChunk + 2 * value_);
    const auto state = static_cast<double>(3 * delta_.value_heads * delta_.key_dim * delta_.value_dim);
    return 2 * length * (pairs * chunk + state);
  }

  // The input, its norm as the projections read it, q|k|v|z and b|a as projected and as the convolution and the rule
  // read them, z and the output in fp32, the norm's input and the product.
  SavedElements Saved(const ActivationShape& shape) const override {
    const int64_t input = spec_.hidden * shape.TokensBetween(), norm = spec_.hidden * shape.tokens;
    const int64_t wide = 4 / std::min<int64_t>(shape.element_bytes, 4);  // fp32, in elements
    const int64_t channels = 2 * key_ + value_;
    const int64_t heads = (2 * channels + (3 + 3 * wide) * value_ + 4 * wide * delta_.value_heads) / shape.tensor;
    return SavedElements::Of(input + norm + heads * shape.tokens, norm, input);
  }

  std::string ToText() const override {
    return Concat("delta ", delta_.value_heads, " heads of ", delta_.value_dim, " (", delta_.key_heads, " key of ",
                  delta_.key_dim, ", convolution ", delta_.convolution, ")");
  }

 private:
  void DeclareProjections(Declarer& declare, const Block& key, const Block& value) const {
    const int64_t group = delta_.value_heads / delta_.key_heads;
    if (delta_.fused) {
      const int64_t width = 2 * delta_.key_dim + 2 * group * delta_.value_dim;
      declare.Columns("delta.qkvz", {"delta.qkvz"}, {declare.OwnHeads(delta_.key_heads, width)}, spec_.hidden, false);
      declare.Columns("delta.ba", {"delta.ba"}, {declare.OwnHeads(delta_.key_heads, 2 * group)}, spec_.hidden, false);
      return;
    }
    declare.Columns("delta.qkv", {"delta.q", "delta.k", "delta.v"}, {key, key, value}, spec_.hidden, false);
    declare.Columns("delta.z", {"delta.z"}, {value}, spec_.hidden, false);
    declare.Columns("delta.b", {"delta.b"}, {declare.OwnHeads(delta_.key_heads, group)}, spec_.hidden, false);
    declare.Columns("delta.a", {"delta.a"}, {declare.OwnHeads(delta_.key_heads, group)}, spec_.hidden, false);
  }

  const AttentionSpec spec_;
  const DeltaSpec delta_;
  const int64_t key_, value_;  // all heads
};

}  // namespace

BlockPointer DeltaAttentionBlock(const AttentionSpec& spec) { return std::make_unique<DeltaAttention>(spec); }

}  // namespace trireme
