// An mlp with its input norm: down(activation(gate(x)) · up(x)).
#include "core/base/error.h"
#include "parallel/graph/blocks/blocks.h"
#include "parallel/graph/declarer.h"

namespace trireme {
namespace {

class Mlp : public LayerBlock {
 public:
  explicit Mlp(const MlpSpec& spec) : spec_(spec) {}

  void Declare(Declarer& declare) const override {
    if (spec_.norms.input) declare.Norm("mlp_norm.weight", spec_.hidden, spec_.norms.offset);
    DeclareMlp("mlp", spec_, declare);
    if (spec_.norms.output) declare.Norm("mlp_output_norm.weight", spec_.hidden, spec_.norms.offset);
  }

  int64_t MatMulParameters() const override { return 3 * spec_.hidden * spec_.ffn; }

  // The residual stream and its norm; gate and up, and activation(gate) · up. With recomputation the input is not
  // saved: the layer's first block saves it. What the output's norm reads.
  SavedElements Saved(const ActivationShape& shape) const override {
    const int64_t residual = spec_.hidden * shape.TokensBetween(), norm = spec_.hidden * shape.tokens;
    const int64_t activated = spec_.ffn / shape.tensor * shape.tokens;
    const int64_t output = spec_.norms.output ? residual : 0;
    return SavedElements::Of(residual + norm + 3 * activated + output, norm + activated, 0);
  }

  // The norm with the residual sum before it, and silu(gate) · up.
  MovedElements Moved(const ActivationShape& shape) const override {
    const int64_t norm = spec_.hidden * shape.TokensBetween() * (spec_.norms.output ? 2 : 1);
    const int64_t activated = spec_.ffn / shape.tensor * shape.tokens;
    return {.forward = 4 * norm + 3 * activated, .backward = 6 * norm + 5 * activated};
  }

  std::string ToText() const override { return Concat("mlp ", spec_.hidden, " > ", spec_.ffn); }

 private:
  const MlpSpec spec_;
};

}  // namespace

BlockPointer MlpBlock(const MlpSpec& spec) { return std::make_unique<Mlp>(spec); }

void DeclareMlp(const std::string& role, const MlpSpec& spec, Declarer& declare) {
  const Block rows = declare.Even(spec.ffn);
  declare.Columns(role + ".gate_up", {role + ".gate", role + ".up"}, {rows, rows}, spec.hidden, spec.bias);
  declare.Rows(role + ".down", spec.hidden, rows, spec.bias);
}

}  // namespace trireme
