// Operations over flat memory: AdamW against fp64 and against ATen's own, sums of squares, accumulation; and
// what all kernels share: the exponential and the rounding to bf16.
#include <ATen/Parallel.h>
#include <ATen/ops/_fused_adamw.h>

#include <cmath>
#include <limits>

#include "ops/cpu/simd.h"
#include "ops/flat/accumulate.h"
#include "ops/flat/adamw.h"
#include "ops/flat/gradient_norm.h"
#include "ops/flat/split_master.h"
#include "tests/ops/compare.h"

namespace trireme {
namespace {

AdamWTensors RandomState(int64_t count, std::optional<at::ScalarType> parameter) {
  AdamWTensors t{Random({count}), Random({count}) * 0.1, Random({count}).square() * 0.01, Random({count}), {}};
  if (parameter) t.parameter = at::zeros({count}, *parameter);
  return t;
}

// The formula of torch.optim.AdamW, in double.
AdamWTensors PlainAdamW(const AdamWTensors& t, const UpdateNumbers& n) {
  const at::Tensor g = t.gradient.to(at::kDouble) * n.gradient_scale;
  const at::Tensor m = t.exp_avg.to(at::kDouble) * n.beta1 + g * (1 - n.beta1);
  const at::Tensor v = t.exp_avg_sq.to(at::kDouble) * n.beta2 + g * g * (1 - n.beta2);
  const double c1 = 1 - std::pow(n.beta1, n.step), c2 = 1 - std::pow(n.beta2, n.step);
  const at::Tensor p =
      t.master.to(at::kDouble) * (1 - n.lr * n.weight_decay) - m / c1 / ((v / c2).sqrt() + n.eps) * n.lr;
  return {p, m, v, t.gradient, {}};
}

TEST(AdamW, IsTheFormula) {
  for (const int64_t count : {0, 1, 17, 100'003}) {
    for (const std::optional<at::ScalarType> type :
         {std::optional<at::ScalarType>(), std::optional(at::kBFloat16), std::optional(at::kFloat)}) {
      for (const bool fast : {true, false}) {
        const UpdateNumbers numbers{
            .lr = 0.05, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.3, .step = 3, .gradient_scale = 0.25};
        const AdamWTensors t = RandomState(count, type);
        const AdamWTensors wanted = PlainAdamW(t, numbers);
        const at::Tensor gradient = t.gradient.clone();
        std::optional<ReferenceOnly> guard;
        if (!fast) guard.emplace();
        AdamW(t, numbers);
        EXPECT_LT(RelativeError(t.master, wanted.master), 1e-6) << count << fast;
        EXPECT_LT(RelativeError(t.exp_avg, wanted.exp_avg), 1e-6) << count << fast;
        EXPECT_LT(RelativeError(t.exp_avg_sq, wanted.exp_avg_sq), 1e-6) << count << fast;
        EXPECT_TRUE(t.gradient.equal(gradient));
        if (type) {
          EXPECT_TRUE(t.parameter.equal(t.master.to(*type))) << count << fast;
        }
      }
    }
  }
}

// Narrow masters and moments are computed in fp32 and rounded once, when they are written.
TEST(AdamW, RoundsWhatIsKeptInBf16) {
  const auto rounded = [](const at::Tensor& x) { return x.to(at::kBFloat16); };
  for (const bool masters : {false, true}) {
    AdamWTensors t = RandomState(1000, masters ? std::optional<at::ScalarType>() : std::optional(at::kBFloat16));
    t.exp_avg = rounded(t.exp_avg);
    t.exp_avg_sq = rounded(t.exp_avg_sq);
    if (masters) t.master = rounded(t.master);
    const UpdateNumbers numbers{.lr = 0.05, .eps = 1e-3, .weight_decay = 0.3, .step = 3, .gradient_scale = 0.25};
    const AdamWTensors wide{
        t.master.to(at::kFloat), t.exp_avg.to(at::kFloat), t.exp_avg_sq.to(at::kFloat), t.gradient, {}};
    AdamW(wide, numbers);
    AdamW(t, numbers);
    EXPECT_LT(RelativeError(t.exp_avg, rounded(wide.exp_avg)), 1e-4);
    EXPECT_LT(RelativeError(t.exp_avg_sq, rounded(wide.exp_avg_sq)), 1e-4);
    EXPECT_LT(RelativeError(masters ? t.master : t.parameter, rounded(wide.master)), 1e-4);
    if (!masters) {
      EXPECT_LT(RelativeError(t.master, wide.master), 1e-6);
    }
  }
}

// Ties, both signs, zero, the smallest and large numbers among them.
TEST(SplitMaster, JoinsToTheSameBits) {
  at::Tensor master = at::cat({Random({1000}), Random({1000}) * 1e-20, Random({1000}) * 1e30,
                               at::tensor({0.0f, -0.0f, 1.00390625f, -1.00390625f, 1.01171875f, 1e-45f, -3e38f})});
  const at::Tensor values = at::empty({master.numel()}, at::kBFloat16), low = at::empty({master.numel()}, at::kShort);
  SplitMaster(master, values, low);
  EXPECT_TRUE(JoinMaster(values, low).view(at::kInt).equal(master.view(at::kInt)));
  const at::Tensor nearest = master.to(at::kBFloat16), tie = low.eq(-32768);
  EXPECT_TRUE(values.eq(nearest).logical_or(tie).all().item<bool>());
  EXPECT_EQ(values[3002].item<float>(), 1.0078125f) << "half a bit above 1: away from zero";
}

TEST(AdamW, StepsASplitMasterAsAWholeOne) {
  const AdamWTensors whole = RandomState(1000, at::kBFloat16);
  const at::Tensor values = whole.master.to(at::kBFloat16), low = at::zeros({1000}, at::kShort);
  SplitMaster(whole.master, values, low);
  const AdamWTensors split{low, whole.exp_avg.clone(), whole.exp_avg_sq.clone(), whole.gradient, values};
  const ReferenceOnly reference;  // the loops round otherwise in the last bit
  for (int64_t step = 1; step <= 5; ++step) {
    const UpdateNumbers numbers{.lr = 1e-3, .weight_decay = 0.1, .step = step};
    AdamW(whole, numbers);
    AdamW(split, numbers);
    EXPECT_TRUE(JoinMaster(values, low).equal(whole.master)) << step;
  }
}

TEST(AdamW, IsWhatAtenFusesOverManySteps) {
  const AdamWTensors ours = RandomState(1000, {});
  const AdamWTensors theirs{ours.master.clone(), ours.exp_avg.clone(), ours.exp_avg_sq.clone(), {}, {}};
  const at::Tensor start = ours.master.clone();
  for (int64_t step = 1; step <= 20; ++step) {
    const at::Tensor gradient = Random({1000});
    ours.gradient.copy_(gradient);
    AdamW(ours, {.lr = 1e-2, .weight_decay = 0.1, .step = step});
    std::vector<at::Tensor> master{theirs.master}, gradients{gradient}, m{theirs.exp_avg}, v{theirs.exp_avg_sq};
    at::_fused_adamw_(master, gradients, m, v, {}, {at::tensor(float(step))}, 1e-2, 0.9, 0.999, 0.1, 1e-8,
                      /*amsgrad=*/false, /*maximize=*/false);
  }
  EXPECT_LT(RelativeError(ours.master - start, theirs.master - start), 1e-5);
}

TEST(SumOfSquares, IsAccurateAndIndependentOfThreads) {
  for (const int64_t count : {0, 1, 65'536, 300'001}) {
    const at::Tensor x = Random({count}) * 1e3;
    const double wanted = x.to(at::kDouble).square().sum().item<double>();
    EXPECT_NEAR(SumOfSquares(x), wanted, 1e-12 * wanted) << count;
    at::set_num_threads(3);
    const double three = SumOfSquares(x);
    at::set_num_threads(1);
    EXPECT_EQ(SumOfSquares(x), three) << count;
  }
}

TEST(SumOfSquares, PropagatesNonFiniteValues) {
  at::Tensor x = Random({100'000});
  EXPECT_TRUE(std::isfinite(SumOfSquares(x * 1e25)));  // whose squares overflow fp32
  x[77'777] = INFINITY;
  EXPECT_TRUE(std::isinf(SumOfSquares(x)));
  x[3] = NAN;
  EXPECT_TRUE(std::isnan(SumOfSquares(x)));
}

TEST(AddInto, AddsInFp32) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{0}, {7, 3}, {40'001}}) {
      const at::Tensor sum = Random(shape), before = sum.clone(), addend = Random(shape, type);
      AddInto(sum, addend);
      EXPECT_TRUE(sum.equal(before + addend.to(at::kFloat)));
    }
  }
  const at::Tensor sum = at::zeros({3, 4}), turned = Random({4, 3}, at::kBFloat16).t();
  AddInto(sum, turned);
  EXPECT_TRUE(sum.equal(turned.to(at::kFloat)));
}

TEST(Kernels, ExpIsWithinItsBound) {
  double worst = 0;
  for (double x = -87.2; x < 87.9; x += 0.00137) {
    const float narrow = static_cast<float>(x);
    const double wanted = std::exp(static_cast<double>(narrow));
    worst = std::max(worst, std::abs(cpu::Exp(narrow) - wanted) / wanted);
  }
  EXPECT_LT(worst, 2e-7);
  EXPECT_EQ(cpu::Exp(0.0f), 1.0f);
  EXPECT_EQ(cpu::Exp(-200.0f), 0.0f);
  EXPECT_EQ(cpu::Exp(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_TRUE(std::isnan(cpu::Exp(NAN)));
}

TEST(Kernels, RoundingToBf16IsTorchs) {
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += 65'521) {  // a prime: all kinds of low halves
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    const float found = cpu::Widen(cpu::Narrow<cpu::Bf16>(x)), wanted = static_cast<float>(at::BFloat16(x));
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(found)) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(wanted)) << bits;
      ASSERT_EQ(cpu::NarrowResult<cpu::Bf16>(x), cpu::Narrow<cpu::Bf16>(x)) << bits;
    }
  }
  EXPECT_TRUE(std::isnan(cpu::Widen(cpu::NarrowResult<cpu::Bf16>(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(cpu::Widen(cpu::NarrowResult<cpu::Bf16>(-std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(cpu::Widen(cpu::NarrowResult<cpu::Bf16>(INFINITY))));
  for (const uint32_t tie : {0x3f808000u, 0x3f818000u, 0x7f7fffffu, 0x7f800001u}) {
    const float x = std::bit_cast<float>(tie);
    EXPECT_EQ(std::isnan(cpu::Rounded<cpu::Bf16>(x)), std::isnan(x));
    if (!std::isnan(x)) {
      EXPECT_EQ(cpu::Rounded<cpu::Bf16>(x), static_cast<float>(at::BFloat16(x)));
    }
  }
}

}  // namespace
}  // namespace trireme
