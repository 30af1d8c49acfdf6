// The mergers of a vision tower: the hidden states of neighbouring patches joined, and two matrices with GELU between
// them, whose outputs are the features of image tokens. One for the embedding, and one for each tapped block.
#include "core/base/error.h"
#include "parallel/graph/blocks/blocks.h"
#include "parallel/graph/declarer.h"

namespace trireme {
namespace {

class Merger : public LayerBlock {
 public:
  explicit Merger(const MergerSpec& spec) : spec_(spec) {}

  void Declare(Declarer& declare) const override {
    declare.HoldAllTokens();
    DeclareOne("", spec_.joins_first ? Joined() : spec_.tower.hidden, declare);
    for (int64_t tap = 0; tap < spec_.taps; ++tap) DeclareOne(Concat("tap", tap, "."), Joined(), declare);
  }

  int64_t MatMulParameters() const override {
    const int64_t of_token = (1 + spec_.taps) * Units() * (Joined() + spec_.outputs);
    return of_token * kPatchesPerToken / (spec_.tower.merge * spec_.tower.merge);
  }

  // Of each merger: its input, the norm's output, what GELU reads and what comes of it.
  SavedElements Saved(const ActivationShape& shape) const override {
    const int64_t input = kPatchesPerToken * shape.tokens * spec_.tower.hidden * (1 + spec_.taps);
    return SavedElements::Of(2 * input + 2 * input / Joined() * Units() / shape.tensor, 0, input);
  }

  std::string ToText() const override {
    return Concat("merger ", spec_.tower.merge, " x ", spec_.tower.merge, " patches ", Joined(), " > ", spec_.outputs,
                  spec_.taps > 0 ? Concat(", and ", spec_.taps, " of tapped layers") : "");
  }

 private:
  void DeclareOne(const std::string& prefix, int64_t norm, Declarer& declare) const {
    declare.AnyNorm(prefix + "norm", norm, spec_.layer_norm);
    const Block units = declare.Even(Units());
    declare.Columns(prefix + "fc1", {prefix + "fc1"}, {units}, Joined(), /*bias=*/true);
    declare.Rows(prefix + "fc2", spec_.outputs, units, /*bias=*/true);
  }

  int64_t Units() const { return spec_.units > 0 ? spec_.units : Joined(); }
  int64_t Joined() const { return spec_.tower.hidden * spec_.tower.merge * spec_.tower.merge; }

  const MergerSpec spec_;
};

}  // namespace

BlockPointer MergerBlock(const MergerSpec& spec) { return std::make_unique<Merger>(spec); }

}  // namespace trireme
