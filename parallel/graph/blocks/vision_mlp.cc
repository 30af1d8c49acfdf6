// The mlp of a vision tower with its input norm and biases: gated as a decoder's, or two matrices with GELU between
// them.
#include "core/base/error.h"
#include "parallel/graph/blocks/blocks.h"
#include "parallel/graph/declarer.h"

namespace trireme {
namespace {

class VisionMlp : public LayerBlock {
 public:
  explicit VisionMlp(const VisionSpec& spec) : spec_(spec) {}

  void Declare(Declarer& declare) const override {
    declare.HoldAllTokens();
    declare.AnyNorm("mlp_norm", spec_.tower.hidden, spec_.layer_norm);
    if (spec_.gated) {
      return DeclareMlp("mlp", {.hidden = spec_.tower.hidden, .ffn = spec_.ffn, .bias = true}, declare);
    }
    const Block units = declare.Even(spec_.ffn);
    declare.Columns("mlp.fc1", {"mlp.fc1"}, {units}, spec_.tower.hidden, /*bias=*/true);
    declare.Rows("mlp.fc2", spec_.tower.hidden, units, /*bias=*/true);
    if (spec_.scale_start != 0) declare.Scale("mlp_scale.weight", spec_.tower.hidden, spec_.scale_start);
  }

  int64_t MatMulParameters() const override {
    return kPatchesPerToken * (spec_.gated ? 3 : 2) * spec_.tower.hidden * spec_.ffn;
  }

  // The residual stream and its norm; gate and up, or what GELU reads, and what comes of it; what is scaled. A tapped
  // block's output.
  SavedElements Saved(const ActivationShape& shape) const override {
    const int64_t patches = kPatchesPerToken * shape.tokens, stream = spec_.tower.hidden * patches;
    const int64_t units = spec_.ffn / shape.tensor * patches;
    const int64_t kept = spec_.tapped ? stream : 0;
    const int64_t scaled = spec_.scale_start != 0 ? stream : 0;
    SavedElements saved = SavedElements::Of(2 * stream + (spec_.gated ? 3 : 2) * units + scaled, 0, 0);
    saved.Add({.none = kept, .selective = kept, .full = kept});
    return saved;
  }

  std::string ToText() const override {
    return Concat(spec_.gated ? "mlp " : "gelu mlp ", spec_.tower.hidden, " > ", spec_.ffn,
                  spec_.tapped ? ", tapped" : "");
  }

 private:
  const VisionSpec spec_;
};

}  // namespace

BlockPointer VisionMlpBlock(const VisionSpec& spec) { return std::make_unique<VisionMlp>(spec); }

}  // namespace trireme
