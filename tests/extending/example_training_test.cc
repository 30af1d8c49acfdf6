// The objective and the optimizer of docs/extending.md as they stand in the page, against the plain formulas.
#include "parallel/objectives/objectives.h"
#include "parallel/sharding/optimizers.h"
#include "parallel/sharding/update_rule.h"
#include "tests/parallel/objectives/wide_problem.h"

namespace trireme {
namespace {

TEST(Focal, IsThePlainFormula) {
  const HeadProblem p(at::kFloat);
  const WideProblem wide(p);
  const at::Tensor loss = -((1 - wide.log_probs.exp()).square() * wide.log_probs).sum() / 80;
  const HeadRun run = RunObjective(*MakeObjective("focal"), p, {.totals = {.trained = 80}});
  wide.ExpectGradients(loss, run, p, 1e-5, "focal");
}

TEST(Lion, IsThePlainFormula) {
  EXPECT_EQ(OptimizerStates("lion"), std::vector<std::string>{"exp_avg"});
  const at::Tensor before = at::randn({50}), momentum = at::randn({50}), gradient = at::randn({50});
  const UpdateTensors tensors{before.clone(), {momentum.clone()}, gradient, at::empty({50}, at::kBFloat16)};
  UpdateRuleOf("lion")(tensors, {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.2, .gradient_scale = 0.5});
  const at::Tensor half = gradient * 0.5, mixed = momentum * 0.9 + half * 0.1;
  const at::Tensor after = before * (1 - 0.1 * 0.2) - 0.1 * mixed.sign();
  EXPECT_LT(RelativeError(tensors.master, after.to(at::kDouble)), 1e-6);
  EXPECT_LT(RelativeError(tensors.states[0], (momentum * 0.99 + half * 0.01).to(at::kDouble)), 1e-6);
  EXPECT_TRUE(tensors.parameter.equal(tensors.master.to(at::kBFloat16)));
}

}  // namespace
}  // namespace trireme
