// The objective of a value model beside a policy (PPO): ValueLoss of its scores. Sums: `loss`, and `val/clipfrac_avg`.
#include <ATen/ATen.h>

#include <memory>

#include "parallel/objectives/policy_facts.h"
#include "parallel/objectives/value_loss.h"

namespace trireme {
namespace {

class ValueObjective : public Objective {
 public:
  explicit ValueObjective(const ValueLossOptions& options) : loss_(options, "loss") {}
  bool needs_scores() const override { return true; }
  std::vector<std::string> SumNames(int64_t /*mtp_depths*/) const override { return {"loss", kValueClips}; }

  std::vector<at::Tensor> Run(const HeadStates& head, PassContext& pass) const override {
    const at::Tensor& hidden = head.hidden.at(0);
    const ValueWeights weights{.weight = head.weight};
    if (pass.options.wants.scores) pass.output->scores = ValuesOf(hidden.to(at::kFloat), weights);
    if (!pass.input.facts.Get<ValueFacts>().positions.defined()) return {{}};  // values are asked for
    const at::Tensor gradient = pass.options.differentiate ? at::zeros_like(hidden) : at::Tensor();
    loss_.Add(head, weights, pass, gradient);
    return {gradient};
  }

 private:
  const ValueLoss loss_;
};

}  // namespace

std::unique_ptr<Objective> MakeValueLoss(const ObjectiveOptions& options) {
  return std::make_unique<ValueObjective>(options.value);
}

}  // namespace trireme
