// Experts with their input norm: a router sends each token through top_k of many mlps; an optional shared mlp
// processes every token.
#include "core/base/error.h"
#include "parallel/graph/blocks/blocks.h"
#include "parallel/graph/declarer.h"

namespace trireme {
namespace {

class Experts : public LayerBlock {
 public:
  Experts(const ExpertsSpec& spec, double norm_offset) : spec_(spec), norm_offset_(norm_offset) {}

  void Declare(Declarer& declare) const override {
    const int64_t experts = spec_.router.experts;
    declare.Norm("mlp_norm.weight", spec_.hidden, norm_offset_);
    declare.OnSharedTokens("router.weight", experts, spec_.hidden);
    if (spec_.router_bias) declare.BiasOnSharedTokens("router.logit_bias", experts);
    DeclareExperts(declare);
    if (spec_.router.correction_bias) declare.Untrained("router.bias", experts, spec_.bias_in_row);
    if (spec_.shared_ffn > 0) DeclareMlp("shared", {.hidden = spec_.hidden, .ffn = spec_.shared_ffn}, declare);
    if (spec_.shared_gate) declare.OnSharedTokens("shared_gate.weight", 1, spec_.hidden);
  }

  // Per token: it passes top_k of the experts.
  int64_t MatMulParameters() const override {
    return spec_.hidden * (3 * (spec_.router.top_k * spec_.ffn + spec_.shared_ffn) + spec_.router.experts +
                           (spec_.shared_gate ? 1 : 0));
  }

  // The residual stream and its norm, for as many tokens as the shared mlp sees; the tokens as the experts
  // receive them; gate and up, and silu(gate) · up. A token's rows go to every rank that shares the expert's
  // matrices; each has its part of the hidden units. Assumes that all experts get equally many tokens.
  SavedElements Saved(const ActivationShape& shape) const override {
    const int64_t between = shape.TokensBetween(), choices = shape.ExpertRows(spec_.router.top_k);
    const int64_t residual = spec_.hidden * between;
    const int64_t norm = spec_.hidden * (spec_.shared_ffn == 0 ? between : shape.tokens);
    const int64_t rows = spec_.hidden * choices * shape.expert_tensor;
    const int64_t activated = spec_.shared_ffn / shape.tensor * shape.tokens + spec_.ffn * choices;
    return SavedElements::Of(residual + norm + rows + 3 * activated, norm + activated, 0);
  }

  // The norm, the router's scores, the tokens' way to the rows of their experts and back, and silu(gate) · up.
  MovedElements Moved(const ActivationShape& shape) const override {
    const int64_t between = shape.TokensBetween(), choices = shape.ExpertRows(spec_.router.top_k);
    const int64_t norm = spec_.hidden * between, scores = 4 * spec_.router.experts * between;
    const int64_t rows = 4 * spec_.hidden * choices * shape.expert_tensor;
    const int64_t activated = spec_.shared_ffn / shape.tensor * shape.tokens + spec_.ffn * choices;
    return {.forward = 4 * norm + scores + rows + 3 * activated, .backward = 6 * norm + scores + rows + 5 * activated};
  }

  std::string ToText() const override {
    const std::string text =
        Concat(spec_.router.top_k, " of ", spec_.router.experts, " experts ", spec_.hidden, " > ", spec_.ffn);
    return spec_.shared_ffn > 0 ? Concat(text, ", shared ", spec_.hidden, " > ", spec_.shared_ffn) : text;
  }

 private:
  // Files of families with the clamped SwiGLU hold all experts in one tensor.
  void DeclareExperts(Declarer& declare) const {
    const int64_t experts = spec_.router.experts;
    if (spec_.activation == MlpSpec::Activation::kClampedSwiglu) {
      declare.StackedExpertColumns("experts.gate_up", experts, spec_.ffn, spec_.hidden, spec_.bias);
      declare.StackedExpertRows("experts.down", experts, spec_.hidden, spec_.ffn, spec_.bias);
      return;
    }
    TRIREME_CHECK(!spec_.bias) << "experts with biases have the clamped SwiGLU";
    declare.ExpertColumns("experts.gate_up.weight", {"experts.gate.weight", "experts.up.weight"}, experts, spec_.ffn,
                          spec_.hidden);
    declare.ExpertRows("experts.down.weight", experts, spec_.hidden, spec_.ffn);
  }

  const ExpertsSpec spec_;
  const double norm_offset_;
};

}  // namespace

BlockPointer ExpertsBlock(const ExpertsSpec& spec, double norm_offset) {
  return std::make_unique<Experts>(spec, norm_offset);
}

}  // namespace trireme
