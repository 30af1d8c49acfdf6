// Linear, its LoRA adapters, and the underlying matmul: values, gradients, deferred weight gradients,
// recomputed inputs.
#include "ops/linear/linear.h"

#include <ATen/Parallel.h>

#include <limits>

#include "ops/element_types.h"
#include "ops/linear/infer_linear.h"
#include "ops/low_rank/low_rank.h"
#include "ops/matmul.h"
#include "ops/weight_gradients.h"
#include "tests/ops/compare.h"

namespace trireme {
namespace {

TEST(Linear, IsThePlainFormula) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    for (const auto& [tokens, in, out] :
         {std::tuple{11, 7, 5}, std::tuple{64, 96, 130}, std::tuple{1, 1, 1}, std::tuple{150, 3, 1031}}) {
      Weight weight = TrainedWeight({out, in}, type), bias = TrainedWeight({out}, type);
      Compare({.inputs = {Random({tokens, in}, type)},
               .weights = {&weight, &bias},
               .op = [&](const Tensors& x) { return Tensors{Linear(x[0], weight, &bias)}; },
               .plain = [](const Tensors& x, const Tensors& w) { return Tensors{at::linear(x[0], w[0], w[1])}; }},
              context + " with bias");
      Compare({.inputs = {Random({in, tokens}, type).t()},
               .weights = {&weight},
               .op = [&](const Tensors& x) { return Tensors{Linear(x[0], weight)}; },
               .plain = [](const Tensors& x, const Tensors& w) { return Tensors{at::linear(x[0], w[0])}; }},
              context + " of a transposed input");
    }
  });
}

// Any number of rows, inputs that are no multiple of a vector, fewer outputs than a tile has.
TEST(InferLinear, IsThePlainFormula) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    for (const int64_t rows : {1, 2, 3, 5, 6, 7, 8, 13, 16, 17, 40}) {
      for (const auto& [in, out] : {std::pair{96, 130}, std::pair{7, 5}, std::pair{161, 33}, std::pair{64, 1}}) {
        const Weight weight{"w", Random({out, in}, type), {}}, bias{"b", Random({out}, type), {}};
        const at::Tensor x = Random({rows, in}, type);
        const at::Tensor wide = x.to(at::kDouble), matrix = weight.value.to(at::kDouble).t();
        const at::Tensor wanted = at::mm(wide, matrix), offset = bias.value.to(at::kDouble);
        const double size = (at::mm(wide.abs(), matrix.abs()) + offset.abs()).norm().item<double>();
        const auto error = [&](const at::Tensor& found, const at::Tensor& right) {  // of the sums' terms
          return (found.to(at::kDouble) - right).norm().item<double>() / size;
        };
        const std::string where = Concat(context, " ", rows, " x ", in, " x ", out);
        EXPECT_LT(error(InferLinear(x, weight), wanted), Tolerance(type)) << where;
        EXPECT_LT(error(InferLinear(x, weight, &bias), wanted + offset), Tolerance(type)) << where;
      }
    }
  });
}

// A row of a step is what it is alone, bit for bit, however many others there are and whatever threads do.
TEST(InferLinear, RowsDoNotDependOnEachOther) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Weight weight{"w", Random({77, 165}, type), {}};
    const at::Tensor x = Random({16, 165}, type);
    const at::Tensor alone = InferLinear(x[5].unsqueeze(0).contiguous(), weight);
    for (int64_t rows = 6; rows <= 16; ++rows) {
      at::set_num_threads(1 + static_cast<int>(rows % 3));
      EXPECT_TRUE(InferLinear(x.narrow(0, 0, rows), weight)[5].equal(alone[0])) << rows;
    }
    at::set_num_threads(1);
  }
}

TEST(Linear, GradientsAccumulateAndFrozenWeightsStayUnchanged) {
  Weight weight = TrainedWeight({5, 7}), frozen{"frozen", Random({5}), {}};
  const at::Tensor x = Random({3, 7}).requires_grad_();
  torch::autograd::backward({Linear(x, weight, &frozen)}, {at::ones({3, 5})});
  const at::Tensor once = weight.gradient.clone();
  torch::autograd::backward({Linear(x, weight, &frozen)}, {at::ones({3, 5})});
  EXPECT_LT(RelativeError(weight.gradient, once * 2), 1e-6);
  EXPECT_FALSE(frozen.gradient.defined());
}

TEST(Linear, Bf16GradientsAreSummedInFp32) {
  Weight weight = TrainedWeight({4, 6}, at::kBFloat16);
  const at::Tensor x = at::ones({1, 6}, at::kBFloat16).requires_grad_();
  // bf16 cannot represent 600 + 1.
  weight.gradient.fill_(600);
  torch::autograd::backward({Linear(x, weight)}, {at::ones({1, 4}, at::kBFloat16)});
  EXPECT_TRUE(weight.gradient.eq(601).all().item<bool>());
}

// What an earlier step left, even a NaN, must not leak in: the first matmul overwrites it.
TEST(Linear, TheFirstContributionToAStaleGradientOverwritesIt) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    const Weight weight{.name = "w", .value = at::ones({5, 3}, type), .gradient = at::zeros({5, 3})};
    const at::Tensor x = at::ones({4, 3}, type), output_gradient = at::ones({4, 5}, type);
    weight.gradient.fill_(std::numeric_limits<float>::quiet_NaN());
    weight.stale = true;
    AddWeightGradient(weight, output_gradient, x);
    EXPECT_TRUE(weight.gradient.eq(4).all().item<bool>()) << c10::toString(type);
    AddWeightGradient(weight, output_gradient, x);
    EXPECT_TRUE(weight.gradient.eq(8).all().item<bool>()) << c10::toString(type);
    weight.stale = true;
    EXPECT_TRUE(weight.gradient_sum().eq(0).all().item<bool>());
  }
}

TEST(Linear, WeightGradientsWaitUntilTheyAreRun) {
  Weight weight = TrainedWeight({5, 7});
  const at::Tensor x = Random({3, 7}).requires_grad_();
  Deferral deferral;
  torch::autograd::backward({Linear(x, weight)}, {at::ones({3, 5})});
  EXPECT_TRUE(x.grad().defined());
  EXPECT_EQ(weight.gradient.abs().sum().item<float>(), 0.0f);
  for (const auto& work : deferral.Take()) work();
  EXPECT_LT(RelativeError(weight.gradient, at::ones({5, 3}).mm(x.detach())), 1e-6);
  EXPECT_TRUE(deferral.Take().empty());
}

TEST(Linear, RecomputesItsInputAndDoesNotSaveIt) {
  Weight weight = TrainedWeight({5, 7});
  const at::Tensor leaf = Random({3, 7}).requires_grad_();
  int made = 0;
  const auto make = [&made, leaf] {
    ++made;
    return leaf.detach() * 2;
  };
  at::Tensor y;
  auto watched = leaf.storage().getWeakStorageImpl();
  {
    const at::Tensor x = leaf * 2;
    watched = x.storage().getWeakStorageImpl();
    y = Linear({x, make}, weight);
  }
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(made, 0);
  torch::autograd::backward({y}, {at::ones({3, 5})});
  EXPECT_EQ(made, 1);
  EXPECT_LT(RelativeError(weight.gradient, at::ones({5, 3}).mm(leaf.detach() * 2)), 1e-6);
}

TEST(Linear, NoTokens) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Weight weight = TrainedWeight({5, 7}, type), bias = TrainedWeight({5}, type);
    const at::Tensor x = Random({0, 7}, type).requires_grad_(), y = Linear(x, weight, &bias);
    torch::autograd::backward({y}, {at::ones_like(y)});
    EXPECT_EQ(x.grad().sizes(), x.sizes());
    EXPECT_EQ(weight.gradient.abs().sum().item<float>(), 0.0f);
  }
}

// A fused weight of three blocks, of which the first and the last have LoRA adapters of different rank.
TEST(LowRank, IsThePlainFormula) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    Weight weight = TrainedWeight({12, 7}, type), a = TrainedWeight({5, 7}, type);
    Weight first = TrainedWeight({4, 2}, type), last = TrainedWeight({3, 3}, type);
    const LowRankWeights adapters{.a = &a,
                                  .blocks = {{.b = &first, .scale = 2, .first_rank = 0, .first_output = 0},
                                             {.b = &last, .scale = 0.5, .first_rank = 2, .first_output = 9}}};
    Compare({.inputs = {Random({11, 7}, type)},
             .weights = {&weight, &a, &first, &last},
             .op = [&](const Tensors& x) { return Tensors{AddLowRank(Linear(x[0], weight), {.x = x[0]}, adapters)}; },
             .plain =
                 [](const Tensors& x, const Tensors& w) {
                   const at::Tensor low = at::linear(x[0], w[1]);
                   const at::Tensor added =
                       at::cat({2 * at::linear(low.narrow(1, 0, 2), w[2]), at::zeros({11, 5}, low.options()),
                                0.5 * at::linear(low.narrow(1, 2, 3), w[3])},
                               1);
                   return Tensors{at::linear(x[0], w[0]) + added};
                 }},
            context);
  });
}

// With the product of a frozen weight in one operator: the values and gradients of both in turn.
TEST(LowRank, WithTheProductInOne) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    for (const bool drops : {false, true}) {
      Weight weight = TrainedWeight({12, 7}, type), bias = TrainedWeight({12}, type), a = TrainedWeight({5, 7}, type);
      weight.gradient = bias.gradient = at::Tensor();
      Weight first = TrainedWeight({4, 2}, type), last = TrainedWeight({3, 3}, type);
      const LowRankWeights adapters{.a = &a,
                                    .blocks = {{.b = &first, .scale = 2, .first_rank = 0, .first_output = 0},
                                               {.b = &last, .scale = 0.5, .first_rank = 2, .first_output = 9}}};
      const auto dropout = std::make_shared<const Dropout>(
          Dropout{.rate = 0.5, .random = RandomStream(1, "x"), .rows = at::arange(11, at::kLong)});
      const LowRankInput options{.x = at::Tensor(), .dropout = drops ? dropout : nullptr};
      const auto run = [&](bool in_one) {
        at::manual_seed(3);
        for (Weight* trained : {&a, &first, &last}) trained->gradient.zero_();
        const at::Tensor x = Random({11, 7}, type).requires_grad_();
        LowRankInput input = options;
        input.x = x;
        const at::Tensor y = in_one ? LinearWithLowRank(input, weight, &bias, adapters)
                                    : AddLowRank(Linear(x, weight, &bias), input, adapters);
        torch::autograd::backward({y}, {at::ones_like(y)});
        return Tensors{y.detach(), x.grad(), a.gradient.clone(), first.gradient.clone(), last.gradient.clone()};
      };
      const Tensors found = run(true), wanted = run(false);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_LT(RelativeError(found[i], wanted[i]), Tolerance(type)) << context << " result " << i;
      }
    }
  });
}

TEST(LowRank, OfExpertsWithSomeWithoutRows) {
  Weight weight = TrainedWeight({3, 4, 6}), a = TrainedWeight({3, 2, 6}), b = TrainedWeight({3, 4, 2});
  const LowRankWeights adapters{.a = &a, .blocks = {{.b = &b, .scale = 3}}};
  const auto ends = std::make_shared<const RowEnds>(std::vector<int64_t>{4, 4, 9});
  Compare({.inputs = {Random({9, 6})},
           .weights = {&weight, &a, &b},
           .op =
               [&](const Tensors& x) {
                 return Tensors{AddLowRank(GroupedLinear(x[0], weight, ends), {.x = x[0], .ends = ends}, adapters)};
               },
           .plain =
               [](const Tensors& x, const Tensors& w) {
                 const auto of = [&](int64_t expert, int64_t begin, int64_t rows) {
                   const at::Tensor own = x[0].narrow(0, begin, rows);
                   return at::linear(own, w[0][expert]) + 3 * at::linear(at::linear(own, w[1][expert]), w[2][expert]);
                 };
                 return Tensors{at::cat({of(0, 0, 4), of(2, 4, 5)})};
               }},
          "experts");
}

TEST(LowRank, DropoutAppliesToTheInputOfAOnly) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    Weight weight = TrainedWeight({6, 9}, type), a = TrainedWeight({3, 9}, type), b = TrainedWeight({6, 3}, type);
    const LowRankWeights adapters{.a = &a, .blocks = {{.b = &b, .scale = 2}}};
    const auto dropout = std::make_shared<const Dropout>(
        Dropout{.rate = 0.5, .random = RandomStream(1, "x"), .rows = at::arange(8, at::kLong)});
    const at::Tensor mask = DropoutMask(*dropout, 9).to(at::kDouble);
    Compare({.inputs = {Random({8, 9}, type)},
             .weights = {&weight, &a, &b},
             .op =
                 [&](const Tensors& x) {
                   return Tensors{AddLowRank(Linear(x[0], weight), {.x = x[0], .dropout = dropout}, adapters)};
                 },
             .plain =
                 [&](const Tensors& x, const Tensors& w) {
                   return Tensors{at::linear(x[0], w[0]) + 2 * at::linear(at::linear(x[0] * mask, w[1]), w[2])};
                 }},
            context);
  });
}

TEST(Dropout, MaskDependsOnlyOnIdentityAndIndex) {
  const Dropout whole{.rate = 0.25, .random = RandomStream(1, "x"), .rows = at::arange(400, at::kLong)};
  const at::Tensor mask = DropoutMask(whole, 500), kept = mask.ne(0).to(at::kFloat);
  EXPECT_NEAR(kept.mean().item<float>(), 0.75, 0.004);
  EXPECT_TRUE(mask.eq(0).logical_or(mask.eq(1 / 0.75f)).all().item<bool>());
  // Neighbours in a row or in a column are independent.
  for (const int64_t dim : {0, 1}) {
    const int64_t size = mask.size(dim) - 1;
    const at::Tensor both = kept.narrow(dim, 0, size) * kept.narrow(dim, 1, size);
    EXPECT_NEAR(both.mean().item<float>(), 0.5625, 0.005) << dim;
  }
  // A subset of the rows in another order, and a subset of the columns.
  const Dropout part{
      .rate = 0.25, .random = RandomStream(1, "x"), .rows = whole.rows.narrow(0, 100, 20).flip(0), .first_column = 10};
  EXPECT_TRUE(DropoutMask(part, 5).equal(mask.narrow(0, 100, 20).flip(0).narrow(1, 10, 5)));
  const Dropout other{.rate = 0.25, .random = RandomStream(2, "x"), .rows = whole.rows};
  EXPECT_NEAR((DropoutMask(other, 500).ne(0) * kept).mean().item<float>(), 0.5625, 0.005);
}

TEST(Dropout, ARowsKeyIsItsWholeRandomNumber) {
  const RandomStream random(1, "x");
  const Dropout dropout{.rate = 0.25, .random = random, .rows = at::tensor({5, 0, 1234567}, at::kLong)};
  const at::Tensor keys = dropout.KeysOn(at::kCPU);
  for (int64_t row = 0; row < 3; ++row) {
    const auto low = static_cast<uint32_t>(keys[row][0].item<int32_t>());
    const auto high = static_cast<uint32_t>(keys[row][1].item<int32_t>());
    const auto identity = static_cast<uint64_t>(dropout.rows[row].item<int64_t>());
    EXPECT_EQ(uint64_t{high} << 32 | low, random.Bits(identity)) << row;
  }
}

TEST(Dropout, IsThePlainFormulaAndItsOwnAdjoint) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    for (const int64_t columns : {1, 67, 1500}) {
      const auto dropout = std::make_shared<const Dropout>(Dropout{
          .rate = 0.3, .random = RandomStream(5, "y"), .rows = at::arange(7, at::kLong) * 1000, .first_column = 3});
      const at::Tensor mask = DropoutMask(*dropout, columns).to(at::kDouble);
      Compare({.inputs = {Random({7, columns}, type), Random({7, columns}, type)},
               .weights = {},
               .op =
                   [&](const Tensors& in) {
                     return Tensors{DropoutAdd(in[0], in[1], dropout), WithDropout(in[1], dropout)};
                   },
               .plain = [&](const Tensors& in, const Tensors&) { return Tensors{in[0] + in[1] * mask, in[1] * mask}; }},
              context);
      const at::Tensor ones = Dropped(at::ones({7, columns}, type), *dropout);
      EXPECT_TRUE(ones.ne(0).equal(mask.ne(0))) << context;
    }
  });
}

template <typename T>
void CheckMatMul(at::ScalarType type) {
  const int64_t m = 13, n = 9, k = 21;
  for (const bool left : {false, true}) {
    for (const bool right : {false, true}) {
      for (const bool add : {false, true}) {
        const at::Tensor a = left ? Random({k, m}, type) : Random({m, k}, type);
        const at::Tensor b = right ? Random({n, k}, type) : Random({k, n}, type);
        const at::Tensor result = Random({m, n + 3}), before = result.clone();
        MatMul(Operand<T>{Data<T>(a), a.size(1), left}, Operand<T>{Data<T>(b), b.size(1), right},
               {.m = m, .n = n, .k = k, .stride = n + 3, .add = add}, Data<float>(result));
        const at::Tensor wide_a = (left ? a.t() : a).to(at::kDouble), wide_b = (right ? b.t() : b).to(at::kDouble);
        const at::Tensor wanted = wide_a.mm(wide_b) + (add ? 1 : 0) * before.narrow(1, 0, n);
        EXPECT_LT(RelativeError(result.narrow(1, 0, n), wanted), 1e-6) << left << right << add;
        EXPECT_TRUE(result.narrow(1, n, 3).equal(before.narrow(1, n, 3))) << "beyond the result";
      }
    }
  }
}

TEST(MatMul, EveryTranspositionInBothTypes) {
  CheckMatMul<float>(at::kFloat);
  CheckMatMul<cpu::Bf16>(at::kBFloat16);
}

}  // namespace
}  // namespace trireme
