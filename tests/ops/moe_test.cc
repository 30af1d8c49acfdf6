// The parts of an expert layer: routing, token permute and unpermute, grouped matmul, weighted activation;
// each against the plain formula in fp64.
#include <algorithm>

#include "ops/grouped_linear/grouped_linear.h"
#include "ops/moe_permute/moe_permute.h"
#include "ops/router/router.h"
#include "ops/swiglu/weighted_swiglu.h"
#include "tests/ops/compare.h"

namespace trireme {
namespace {

GroupEnds Ends(std::vector<int64_t> ends) { return std::make_shared<const RowEnds>(std::move(ends)); }

at::Tensor PlainGrouped(const at::Tensor& x, const at::Tensor& weight, const std::vector<int64_t>& ends) {
  Tensors parts;
  int64_t begin = 0;
  for (size_t e = 0; e < ends.size(); ++e) {
    parts.push_back(at::mm(x.narrow(0, begin, ends[e] - begin), weight[static_cast<int64_t>(e)].t()));
    begin = ends[e];
  }
  return at::cat(parts);
}

TEST(GroupedLinear, EveryRunOfRowsHasItsOwnWeight) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    // Experts without rows at the start, at the end and in between; all rows at one expert; no rows at all.
    for (const std::vector<int64_t>& ends : {std::vector<int64_t>{0, 5, 5, 6, 6}, {0, 0, 9, 9, 9}, {0, 0, 0, 0, 0}}) {
      Weight weight = TrainedWeight({5, 7, 4}, type);
      Compare({.inputs = {Random({ends.back(), 4}, type)},
               .weights = {&weight},
               .op = [&](const Tensors& in) { return Tensors{GroupedLinear(in[0], weight, Ends(ends))}; },
               .plain = [&](const Tensors& in, const Tensors& w) { return Tensors{PlainGrouped(in[0], w[0], ends)}; }},
              context);
    }
  });
}

TEST(GroupedLinear, StaleGradientsOfExpertsWithoutRowsBecomeZero) {
  Weight weight = TrainedWeight({3, 2, 4});
  weight.gradient.fill_(7);
  weight.stale = true;
  const at::Tensor x = Random({2, 4}).requires_grad_(), y = GroupedLinear(x, weight, Ends({0, 2, 2}));
  y.sum().backward();
  EXPECT_TRUE(weight.gradient[0].eq(0).all().item<bool>());
  EXPECT_TRUE(weight.gradient[2].eq(0).all().item<bool>());
  EXPECT_TRUE(weight.gradient[1].allclose(x.detach().sum(0).expand({2, 4})));
}

TEST(WeightedSwiGlu, ScalesRowsAndDifferentiatesTheWeights) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    const at::Tensor weights = at::rand({9});
    Compare({.inputs = {Random({9, 70}, type)},
             .weights = {},
             .op = [&](const Tensors& in) { return Tensors{WeightedSwiGlu(in[0], weights)}; },
             .plain =
                 [&](const Tensors& in, const Tensors&) {
                   const auto halves = in[0].chunk(2, -1);
                   return Tensors{at::silu(halves[0]) * halves[1] * weights.to(at::kDouble).unsqueeze(1)};
                 }},
            context);
    const at::Tensor gate_up = Random({9, 70}, type), gradient = Random({9, 35}, type);
    const at::Tensor leaf = weights.clone().requires_grad_();
    WeightedSwiGlu(gate_up, leaf).backward(gradient);
    const auto halves = gate_up.to(at::kDouble).chunk(2, -1);
    const at::Tensor wanted = (at::silu(halves[0]) * halves[1] * gradient).sum(-1);
    EXPECT_LT(RelativeError(leaf.grad(), wanted), 2e-6) << context;
  });
}

TEST(MoePermute, SumIsTheAdjointOfSpread) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    for (const int64_t size : {1, 130}) {
      // Token 1 goes to one position only, token 2 to none.
      const at::Tensor positions = at::tensor({3, 0, -1, 4, -1, -1, 1, 2}, at::kLong).view({4, 2});
      const at::Tensor x = Random({4, size}, type), y = Random({5, size}, type);
      const at::Tensor rows = SpreadRows(x, positions, 5), sums = SumRows(y, positions);
      for (const auto& [row, token] : std::vector<std::pair<int, int>>{{0, 0}, {1, 3}, {2, 3}, {3, 0}, {4, 1}}) {
        EXPECT_TRUE(rows[row].equal(x[token])) << context << ", row " << row;
      }
      EXPECT_TRUE(sums[2].eq(0).all().item<bool>()) << context;
      EXPECT_TRUE(sums[0].allclose((y[3].to(at::kFloat) + y[0].to(at::kFloat)).to(type))) << context;
      // Rows that no token fills are zero.
      const at::Tensor gaps = SpreadRows(x, positions + positions.ge(0).to(at::kLong) * 2, 8, /*gaps=*/true);
      EXPECT_TRUE(gaps.narrow(0, 2, 5).equal(rows)) << context;
      EXPECT_TRUE(at::cat({gaps.narrow(0, 0, 2), gaps.narrow(0, 7, 1)}).eq(0).all().item<bool>()) << context;
      // Two copies of the buffer are summed.
      const at::Tensor twice = SumRows(at::cat({y, y * 2}), positions, 2);
      EXPECT_LT(RelativeError(twice, sums.to(at::kDouble) * 3), Tolerance(type)) << context;
    }
  });
}

// Each family's rule, by hand for one token.
void CheckTheRules() {
  const at::Tensor logits = at::tensor({0.1, 2.0, 1.0, 1.5, -1.0, 3.0, 0.0, 0.5}, at::kFloat).view({1, 8});
  const auto chosen = [&](const RouterRule& rule, const at::Tensor& bias = {}) {
    const Routing routing = ChooseExperts(logits, rule, bias);
    std::vector<int64_t> experts(routing.experts.data_ptr<int64_t>(),
                                 routing.experts.data_ptr<int64_t>() + routing.experts.numel());
    std::sort(experts.begin(), experts.end());
    return experts;
  };
  RouterRule rule{.experts = 8, .top_k = 2};
  EXPECT_EQ(chosen(rule), (std::vector<int64_t>{1, 5}));
  rule.groups = 4, rule.top_groups = 1;                   // {0, 1} {2, 3} {4, 5} {6, 7}
  EXPECT_EQ(chosen(rule), (std::vector<int64_t>{4, 5}));  // the largest is there
  rule.scores = RouterRule::Scores::kSigmoid, rule.group_score = RouterRule::GroupScore::kSumOfTwo;
  EXPECT_EQ(chosen(rule), (std::vector<int64_t>{2, 3}));  // the largest pair
  rule.correction_bias = true;
  at::Tensor bias = at::zeros({8});
  bias[6] = 5;
  EXPECT_EQ(chosen(rule, bias), (std::vector<int64_t>{6, 7}));
  rule.normalise = true, rule.scale = 2.5;
  const Routing routing = ChooseExperts(logits, rule, bias);
  const at::Tensor scores = logits.sigmoid().gather(1, routing.experts);  // without the bias
  EXPECT_TRUE(routing.weights.allclose(2.5 * scores / scores.sum()));
}

TEST(Router, ChoosesAsTheRuleSays) {
  CheckTheRules();
  const KernelsFirst guard;
  CheckTheRules();
}

struct RouterCase {
  RouterRule rule;
  const char* name;
};

// Weights and scores, and their gradients with respect to the logits, by the reference and by the kernel.
void CompareRouter(const RouterCase& given, const std::string& context) {
  at::manual_seed(7);
  const RouterRule& rule = given.rule;
  const at::Tensor bias = rule.correction_bias ? at::rand({rule.experts}) : at::Tensor();
  Compare({.inputs = {Random({9, rule.experts})},
           .weights = {},
           .op =
               [&](const Tensors& in) {
                 const Routing routing = ChooseExperts(in[0], rule, bias);
                 return Tensors{routing.weights, routing.scores};
               },
           .plain =
               [&](const Tensors& in, const Tensors&) {
                 const at::Tensor experts = ChooseExperts(in[0].detach().to(at::kFloat), rule, bias).experts;
                 const at::Tensor scores =
                     rule.scores == RouterRule::Scores::kSoftmax ? at::softmax(in[0], -1) : at::sigmoid(in[0]);
                 at::Tensor weights = scores.gather(1, experts);
                 if (rule.normalise) weights = weights / (weights.sum(-1, true) + rule.normalise_eps);
                 return Tensors{weights * rule.scale, scores};
               }},
          context + " " + given.name);
}

TEST(Router, GradientsOfWeightsAndScoresAreThePlainOnes) {
  using Scores = RouterRule::Scores;
  const RouterCase cases[] = {
      {{.experts = 12, .top_k = 4, .normalise = true}, "softmax"},
      {{.experts = 12, .top_k = 1, .scale = 0.5}, "one of softmax"},
      {{.experts = 12, .top_k = 3, .groups = 4, .top_groups = 2, .normalise_eps = 1e-3, .scale = 16}, "groups"},
      {{.experts = 12,
        .top_k = 4,
        .scores = Scores::kSigmoid,
        .groups = 3,
        .top_groups = 2,
        .group_score = RouterRule::GroupScore::kSumOfTwo,
        .correction_bias = true,
        .normalise = true,
        .normalise_eps = 0.25,
        .scale = 2.5},
       "sigmoid, bias, groups"}};
  for (const RouterCase& one : cases) {
    CompareRouter(one, "aten");
    const KernelsFirst guard;
    const ChoiceRecord record;
    CompareRouter(one, "kernel");
    EXPECT_EQ(record.ChosenFor("router"), "ascendc") << one.name;
  }
}

TEST(Router, GradientsReachTokensAndWeight) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    at::manual_seed(3);
    Weight weight = TrainedWeight({8, 6}, type);
    const RouterRule rule{.experts = 8, .top_k = 3, .normalise = true};
    const at::Tensor x = Random({5, 6}, type);
    const at::Tensor wide_x = x.to(at::kDouble).requires_grad_();
    const at::Tensor wide_w = weight.value.to(at::kDouble).requires_grad_();
    const at::Tensor leaf = x.clone().requires_grad_(), gradient = at::randn({5, 3});
    const Routing routing = ChooseExperts(RouterLogits(leaf, weight), rule);
    EXPECT_EQ(routing.weights.scalar_type(), at::kFloat);
    const at::Tensor scores = at::softmax(at::mm(wide_x, wide_w.t()), -1).gather(1, routing.experts);
    const at::Tensor wanted = scores / scores.sum(-1, true);
    EXPECT_LT(RelativeError(routing.weights, wanted.detach()), 2e-6);
    routing.weights.backward(gradient);
    wanted.backward(gradient.to(at::kDouble));
    EXPECT_LT(RelativeError(leaf.grad(), wide_x.grad()), Tolerance(type));
    EXPECT_LT(RelativeError(weight.gradient, wide_w.grad()), 5e-6);  // fp32 whatever the type
  }
}

}  // namespace
}  // namespace trireme
