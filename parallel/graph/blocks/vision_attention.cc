// Attention of a vision tower with its input norm: the patches of a frame, or of a window of it, attend to each other
// both ways; all heads have keys of their own.
#include <algorithm>

#include "core/base/error.h"
#include "parallel/graph/blocks/blocks.h"
#include "parallel/graph/declarer.h"

namespace trireme {
namespace {

// Of an image of 512 x 512 pixels, to compare costs: an image's size is known only at run time.
constexpr int64_t kFramePatches = 1024;

class VisionAttention : public LayerBlock {
 public:
  explicit VisionAttention(const VisionSpec& spec) : spec_(spec) {}

  void Declare(Declarer& declare) const override {
    declare.HoldAllTokens();
    const Block heads = declare.OwnHeads(spec_.heads, spec_.tower.head_dim);
    declare.AnyNorm("attention_norm", spec_.tower.hidden, spec_.layer_norm);
    declare.Columns("attention.qkv", {"attention.q", "attention.k", "attention.v"}, {heads, heads, heads},
                    spec_.tower.hidden, spec_.qkv_bias);
    if (spec_.wide_qk_norm) {
      declare.SplitNorm("attention.q_norm.weight", heads);
      declare.SplitNorm("attention.k_norm.weight", heads);
    }
    declare.Rows("attention.output", spec_.tower.hidden, heads, /*bias=*/true);
    if (spec_.scale_start != 0) declare.Scale("attention_scale.weight", spec_.tower.hidden, spec_.scale_start);
  }

  int64_t MatMulParameters() const override { return kPatchesPerToken * 4 * spec_.tower.hidden * Width(); }

  double AttentionFlops(double length) const override {
    const double patches = static_cast<double>(kPatchesPerToken) * length;
    return Flops(patches, spec_.windowed ? WindowPatches() : kFramePatches);
  }
  double FrameFlops(double patches) const override {
    return Flops(patches, spec_.windowed ? WindowPatches() : patches);
  }

  // The input, its norm, queries, keys and values before and after the rotary embedding, queries and keys before their
  // norms, and the attention output; what is scaled.
  SavedElements Saved(const ActivationShape& shape) const override {
    const int64_t patches = kPatchesPerToken * shape.tokens, here = Width() / shape.tensor * patches;
    const int64_t input = spec_.tower.hidden * patches;
    const int64_t scaled = spec_.scale_start != 0 ? input : 0, normalised = spec_.wide_qk_norm ? 2 * here : 0;
    return SavedElements::Of(2 * input + 7 * here + normalised + scaled, 0, input);
  }

  std::string ToText() const override {
    return Concat(
        "attention ", spec_.heads, " heads of ", spec_.tower.head_dim, " both ways",
        spec_.wide_qk_norm ? ", queries and keys normalised" : "", spec_.scale_start != 0 ? ", scaled" : "",
        spec_.windowed ? Concat(" in windows of ", spec_.tower.window, " x ", spec_.tower.window, " tokens") : "");
  }

 private:
  int64_t Width() const { return spec_.heads * spec_.tower.head_dim; }
  double WindowPatches() const {
    const int64_t side = spec_.tower.window * spec_.tower.merge;
    return static_cast<double>(side * side);
  }
  // Each of the patches with so many keys, where there are so many.
  double Flops(double patches, double keys) const {
    return 2 * 2 * static_cast<double>(Width()) * patches * std::min(keys, patches);
  }

  const VisionSpec spec_;
};

}  // namespace

BlockPointer VisionAttentionBlock(const VisionSpec& spec) { return std::make_unique<VisionAttention>(spec); }

}  // namespace trireme
