#include "launch/bench_ops_cases.h"

#include <ATen/ATen.h>

#include <memory>

#include "ops/accumulate.h"
#include "ops/adamw.h"
#include "ops/attention_tiles.h"
#include "ops/dropout.h"
#include "ops/gradient_norm.h"
#include "ops/heads.h"
#include "ops/low_rank.h"
#include "ops/rms_norm.h"
#include "ops/router.h"
#include "ops/softmax_cross_entropy.h"
#include "ops/swiglu.h"

namespace trireme {
namespace {

using Tensors = OperatorCase::Tensors;
using Cases = std::vector<OperatorCase>;

struct Size {
  int64_t rows, columns;
};

at::Tensor Random(at::IntArrayRef shape, at::ScalarType type) {
  return at::randn(shape, at::kFloat).to(type);
}
at::Tensor Leaf(at::IntArrayRef shape, at::ScalarType type) {
  return Random(shape, type).set_requires_grad(true);
}
std::shared_ptr<Weight> MakeWeight(int64_t size, at::ScalarType type) {
  return std::make_shared<Weight>(Weight{"weight", Random({size}, type), at::zeros({size}, at::kFloat)});
}

OperatorCase RmsNormCase(const Size& s, at::ScalarType type) {
  const at::Tensor x = Leaf({s.rows, s.columns}, type);
  const auto weight = MakeWeight(s.columns, type);
  const double bytes = static_cast<double>(x.nbytes());
  return {"rms_norm", 2 * bytes,       3 * bytes, x, [=] { return Tensors{RmsNorm(x, *weight, 1e-6)}; },
          {},         {.vendor = true}};
}

OperatorCase SwigluCase(const Size& s, at::ScalarType type) {
  const at::Tensor x = Leaf({s.rows, 2 * s.columns}, type);
  const double bytes = static_cast<double>(x.nbytes());
  return {"swiglu", 1.5 * bytes, 2.5 * bytes, x, [=] { return Tensors{SwiGlu(x)}; }, {}, {.vendor = true}};
}

// Heads of 128, four queries to a key, with norms.
OperatorCase RotaryCase(const Size& s, at::ScalarType type) {
  constexpr int64_t kDim = 128;
  const int64_t groups = std::max<int64_t>(s.columns / kDim / 6, 1);
  const HeadShape shape{
      .rows = 1, .length = s.rows, .heads = 4 * groups, .kv_heads = groups, .head_dim = kDim};
  const at::Tensor qkv = Leaf({s.rows, shape.width()}, type);
  const auto query_norm = MakeWeight(kDim, type), key_norm = MakeWeight(kDim, type);
  std::vector<double> frequencies(kDim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = 1.0 / static_cast<double>(i + 1);
  const RotaryTable table = MakeRotaryTable(at::arange(s.rows, at::kLong), frequencies);
  const double bytes = static_cast<double>(qkv.nbytes());
  return {"heads", 2 * bytes, 3 * bytes, qkv, [=] {
            const Heads heads = SplitHeads(qkv, shape, query_norm.get(), key_norm.get(), table);
            return Tensors{heads.query, heads.key, heads.value};
          }};
}

Cases CrossEntropyCases(const Size& s, at::ScalarType type) {
  const at::Tensor logits = Random({s.rows, s.columns}, type);
  const at::Tensor labels = at::randint(s.columns, {s.rows}, at::kLong), lse = at::full({s.rows}, 11.0f);
  const double bytes = static_cast<double>(logits.nbytes());
  const LogitColumns columns{0, s.columns};
  const auto statistics = [=] {
    StatisticsOfLogits(logits, labels, columns);
    return Tensors{};
  };
  const auto gradient = [=] {
    LogitsToGradient(logits, labels, columns, lse, 1e-3);
    return Tensors{};
  };
  return {{"cross_entropy", bytes, 0, logits, statistics},
          {"cross_entropy gradient", 2 * bytes, 0, logits, gradient}};
}

OperatorCase AdamWCase(const Size& s, at::ScalarType type) {
  const int64_t n = s.rows * s.columns;
  const AdamWTensors t{Random({n}, at::kFloat), at::zeros({n}), at::zeros({n}), Random({n}, at::kFloat),
                       Random({n}, type)};
  const auto ours = [=] {
    AdamW(t, {});
    return Tensors{};
  };
  const auto fused = [=] {
    Tensors master{t.master}, gradient{t.gradient}, m{t.exp_avg}, v{t.exp_avg_sq};
    at::_fused_adamw_(master, gradient, m, v, {}, {at::tensor(1.0f)}, 1e-3, 0.9, 0.999, 0.01, 1e-8,
                      /*amsgrad=*/false, /*maximize=*/false);
    t.parameter.copy_(t.master);
    return Tensors{};
  };
  const bool loops = type == at::kFloat || type == at::kBFloat16;
  return {"adamw",
          static_cast<double>(n) * (28.0 + static_cast<double>(t.parameter.element_size())),
          0,
          t.master,
          ours,
          fused,
          {.loops = loops ? "" : "loops write fp32 and bf16 parameters only"}};
}

Cases SumCases(const Size& s, at::ScalarType type) {
  const int64_t n = s.rows * s.columns;
  const at::Tensor sum = Random({n}, at::kFloat), addend = Random({n}, type);
  const bool loops = type == at::kFloat || type == at::kBFloat16;
  Cases cases = {{"accumulate",
                  static_cast<double>(n) * (8.0 + static_cast<double>(addend.element_size())),
                  0,
                  sum,
                  [=] {
                    AddInto(sum, addend);
                    return Tensors{};
                  },
                  {},
                  {.loops = loops ? "" : "loops add fp32 and bf16 only"}}};
  if (type == at::kFloat) {
    cases.push_back({"gradient_norm", static_cast<double>(n) * 4, 0, sum, [=] {
                       SumOfSquares(sum);
                       return Tensors{};
                     }});
  }
  return cases;
}

// 8 of 128 experts, or of as many as there are columns.
OperatorCase RouterCase(const Size& s) {
  const int64_t experts = std::min<int64_t>(s.columns, 128);
  const RouterRule rule{.experts = experts, .top_k = std::min<int64_t>(experts, 8), .normalise = true};
  const at::Tensor logits = Leaf({s.rows, experts}, at::kFloat);
  const double bytes = static_cast<double>(logits.nbytes());
  return {"router",
          2 * bytes,
          2 * bytes,
          logits,
          [=] { return Tensors{ChooseExperts(logits, rule).weights}; },
          {},
          AgainstRouter(logits, rule),
          {s.rows, experts}};
}

// Rank 16 beside a square matrix, into the same memory every time.
OperatorCase LowRankCase(const Size& s, at::ScalarType type) {
  constexpr int64_t kRank = 16;
  const auto weight = [&](int64_t rows, int64_t columns) {
    return std::make_shared<Weight>(
        Weight{"w", Random({rows, columns}, type) * 0.01, at::zeros({rows, columns})});
  };
  const auto a = weight(kRank, s.columns), b = weight(s.columns, kRank);
  const auto pairs =
      std::make_shared<LowRankWeights>(LowRankWeights{.a = a.get(), .blocks = {{.b = b.get()}}});
  const at::Tensor x = Leaf({s.rows, s.columns}, type), y = at::zeros({s.rows, s.columns}, type);
  const double bytes = static_cast<double>(x.nbytes());
  const auto run = [=, kept = std::pair(a, b)] { return Tensors{AddLowRank(y.detach(), {.x = x}, *pairs)}; };
  return {"low_rank", 3 * bytes, 3 * bytes, x, run, {}, AgainstLowRank(x, kRank, false)};
}

OperatorCase DropoutCase(const Size& s, at::ScalarType type) {
  const at::Tensor residual = Random({s.rows, s.columns}, type), x = Leaf({s.rows, s.columns}, type);
  const auto dropout = std::make_shared<const Dropout>(
      Dropout{.rate = 0.1, .random = RandomStream(1, "bench"), .rows = at::arange(s.rows, at::kLong)});
  const double bytes = static_cast<double>(x.nbytes());
  return {"dropout_add", 3 * bytes, 2 * bytes, x, [=] { return Tensors{DropoutAdd(residual, x, dropout)}; }};
}

// Heads that are not cut where rows do not divide.
OperatorCase MergeCase(const Size& s) {
  const int64_t heads = s.rows % 4 == 0 ? 4 : 1;
  const auto random = [&] {
    return SeenAttention{Random({heads, s.rows / heads, 1, s.columns}, at::kFloat),
                         Random({heads, s.rows / heads, 1}, at::kFloat)};
  };
  const SeenAttention seen = random(), part = random();
  return {"attention_merge", 3 * static_cast<double>(seen.output.nbytes()), 0, seen.output, [=] {
            MergeSeen(seen, part);
            return Tensors{};
          }};
}

}  // namespace

void ForEachOperatorCase(int64_t rows, int64_t columns, at::ScalarType type,
                         const std::function<void(const OperatorCase&)>& visit) {
  const Size s{rows, columns};
  visit(RmsNormCase(s, type));
  visit(SwigluCase(s, type));
  visit(RotaryCase(s, type));
  for (const OperatorCase& c : CrossEntropyCases(s, type)) visit(c);
  visit(AdamWCase(s, type));
  for (const OperatorCase& c : SumCases(s, type)) visit(c);
  visit(DropoutCase(s, type));
  visit(LowRankCase(s, type));
  if (type != at::kFloat) return;
  visit(RouterCase(s));
  visit(MergeCase(s));
}

}  // namespace trireme
