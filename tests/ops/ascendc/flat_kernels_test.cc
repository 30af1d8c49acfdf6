// Cross-entropy, AdamW, sums, scaling, dropout and ring-attention merge: kernels against ATen in fp64.
#include "ops/attention/ascendc.h"
#include "ops/cross_entropy/ascendc.h"
#include "ops/dropout_add/ascendc.h"
#include "ops/dropout_add/cpu.h"
#include "ops/flat/ascendc.h"
#include "tests/ops/ascendc/kernel_case.h"

namespace trireme {
namespace {

void OneCrossEntropy(KernelCase& c, int64_t rows, int64_t stride, const std::string& context) {
  const int64_t columns = c.Chance(0.5) ? stride : c.Between(1, stride), first = c.Between(0, 50);
  const double size = c.Pick({1.0, 30.0, 1000.0});
  const at::Tensor logits = (c.Values({rows, stride}).to(at::kDouble).clamp(-50, 50) * size).to(c.type());
  const at::Tensor labels = at::randint(0, columns + 60, {rows}, at::kLong);
  const ascendc::LogitShape shape{static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                                  static_cast<uint64_t>(stride), static_cast<uint64_t>(first)};
  const at::Tensor largest = c.Empty({rows}, at::kFloat), sum = c.Empty({rows}, at::kFloat),
                   picked = c.Empty({rows}, at::kFloat);
  ascendc::LogitStatistics(c.place(), c.element(), logits.data_ptr(), Of<int64_t>(labels), shape, Of<float>(largest),
                           Of<float>(sum), Of<float>(picked));
  const at::Tensor wide = logits.to(at::kDouble).narrow(1, 0, columns);
  const at::Tensor local = labels - first, held = local.ge(0).logical_and(local.lt(columns)),
                   index = (local * held).unsqueeze(1);
  if (rows == 0) return;
  ExpectNear(largest, wide.amax(1), 1e-9, context + ", largest");
  ExpectNear(sum, (wide - wide.amax(1, true)).exp().sum(1), 1e-5, context + ", sum");
  ExpectNear(picked, wide.gather(1, index).squeeze(1) * held, 1e-9, context + ", picked");

  const at::Tensor log_sum_exp = wide.logsumexp(1).to(at::kFloat);
  at::Tensor wanted = (wide - log_sum_exp.to(at::kDouble).unsqueeze(1)).exp();
  wanted.scatter_add_(1, index, held.to(at::kDouble).neg().unsqueeze(1));
  wanted = at::constant_pad_nd(wanted * 0.01, {0, stride - columns});
  ascendc::LogitGradient(c.place(), c.element(), logits.data_ptr(), Of<int64_t>(labels), shape, Of<float>(log_sum_exp),
                         0.01f);
  // The rounding error of the exponent grows with the logits.
  ExpectNear(logits, wanted, c.Tolerance() + 2e-7 * 50 * size, context + ", gradient");
}

TEST(CrossEntropyKernel, RandomCases) {
  ForCases(400, [](KernelCase& c, const std::string& context) {
    const int64_t rows = c.Rows(), stride = c.Columns();
    OneCrossEntropy(c, rows, stride, Concat(context, ", ", rows, " x ", stride));
  });
  ForCases(
      4, [](KernelCase& c, const std::string& context) { OneCrossEntropy(c, 2, 32768 + 5, context + ", long rows"); });
}

TEST(CrossEntropyKernel, ColumnsOfMinusInfinity) {
  const at::Tensor logits = at::tensor({-INFINITY, 1.0f, -INFINITY, 2.0f}).view({1, 4}),
                   labels = at::zeros({1}, at::kLong);
  const at::Tensor out = at::empty({3});
  ascendc::LogitStatistics(PlaceOf(logits), ascendc::Element::kFloat, logits.data_ptr(), Of<int64_t>(labels),
                           {1, 4, 4, 3}, Of<float>(out), Of<float>(out) + 1, Of<float>(out) + 2);
  ExpectNear(out, at::tensor({2.0, 1.0 + std::exp(-1.0), 0.0}, at::kDouble), 1e-6, "minus infinity");
}

TEST(AdamWKernel, RandomCases) {
  ForCases(200, [](KernelCase& c, const std::string& given) {
    const int64_t n = c.Chance(0.15) ? c.Between(2000, 9000) : c.Between(0, 200);
    const std::string context = Concat(given, ", ", n);
    const at::Tensor p = c.Values({n}, at::kFloat), m = c.Values({n}, at::kFloat), g = c.Values({n}, at::kFloat);
    const at::Tensor v = c.Values({n}, at::kFloat).square(), parameter = c.Empty({n});
    const bool writes = c.Chance(0.7);
    const double lr = 0.01, b1 = 0.9, b2 = 0.95, eps = 1e-8, decay = 0.1, scale = 0.5, step = 7;
    const double c1 = 1 - std::pow(b1, step), c2 = 1 - std::pow(b2, step);
    const at::Tensor wide_g = g.to(at::kDouble) * scale, wide_m = m.to(at::kDouble) * b1 + wide_g * (1 - b1);
    const at::Tensor wide_v = v.to(at::kDouble) * b2 + wide_g.square() * (1 - b2);
    const at::Tensor wide_p = p.to(at::kDouble) * (1 - lr * decay) - lr / c1 * wide_m / ((wide_v / c2).sqrt() + eps);
    ascendc::AdamW(c.place(), c.element(),
                   {Of<float>(p), Of<float>(m), Of<float>(v), Of<float>(g), writes ? parameter.data_ptr() : nullptr},
                   static_cast<uint64_t>(n),
                   {static_cast<float>(1 - lr * decay), static_cast<float>(b1), static_cast<float>(1 - b1),
                    static_cast<float>(b2), static_cast<float>(1 - b2), static_cast<float>(lr / c1),
                    static_cast<float>(1 / std::sqrt(c2)), static_cast<float>(eps), static_cast<float>(scale)});
    ExpectNear(m, wide_m, 1e-6, context + ", exp_avg");
    ExpectNear(v, wide_v, 1e-6, context + ", exp_avg_sq");
    ExpectNear(p, wide_p, 2e-6, context + ", master");
    if (writes) ExpectNear(parameter, p, c.Tolerance() / 2, context + ", parameter");
  });
}

TEST(FlatKernels, SumsScalesAndAccumulates) {
  ForCases(200, [](KernelCase& c, const std::string& given) {
    const int64_t n = c.Chance(0.15) ? c.Between(2000, 9000) : c.Between(0, 200);
    const std::string context = Concat(given, ", ", n);
    const at::Tensor x = c.Values({n}), sum = c.Values({n}, at::kFloat);
    const at::Tensor squares = c.Empty({ascendc::SumOfSquaresBlocks(c.place(), n)}, at::kFloat);
    ascendc::SumOfSquares(c.place(), c.element(), x.data_ptr(), n, Of<float>(squares));
    ExpectNear(squares.to(at::kDouble).sum(), x.to(at::kDouble).square().sum(), 3e-6, context + ", squares");
    const at::Tensor wanted = sum.to(at::kDouble) + x.to(at::kDouble);
    ascendc::AddInto(c.place(), c.element(), Of<float>(sum), x.data_ptr(), n);
    ExpectNear(sum, wanted, 1e-6, context + ", sum");
    const at::Tensor scaled = x.to(at::kDouble) * 0.3;
    ascendc::Scale(c.place(), c.element(), x.data_ptr(), n, 0.3f);
    ExpectNear(x, scaled, c.Tolerance(), context + ", scaled");
  });
}

// The CPU loops draw the same mask, bit for bit.
TEST(DropoutAddKernel, RandomCases) {
  ForCases(200, [](KernelCase& c, const std::string& given) {
    const int64_t rows = c.Rows(), columns = c.Chance(0.1) ? c.Between(2000, 9000) : c.Columns();
    const auto first = static_cast<uint32_t>(c.Between(0, 1 << 30));
    const float rate = c.Pick({0.0f, 0.1f, 0.5f, 0.9f});
    const bool adds = c.Chance(0.5);
    const at::Tensor keys = at::randint(-1000000000, 1000000000, {rows, 2}, at::kInt);
    const at::Tensor x = c.Values({rows, columns}), residual = c.Values({rows, columns}), y = c.Empty({rows, columns}),
                     mask = at::empty({rows, columns});
    ascendc::DropoutAdd(c.place(), c.element(), x.data_ptr(), adds ? residual.data_ptr() : nullptr,
                        {.keys = Of<int32_t>(keys),
                         .rows = static_cast<uint64_t>(rows),
                         .columns = static_cast<uint64_t>(columns),
                         .first_column = first,
                         .rate = rate},
                        y.data_ptr());
    cpu::DropoutAdd(Of<float>(at::ones_like(mask)), nullptr,
                    {.keys = Of<uint32_t>(keys), .columns = columns, .first_column = first, .rate = rate}, {0, rows},
                    Of<float>(mask));
    const std::string context = Concat(given, ", ", rows, " x ", columns, ", rate ", rate);
    const at::Tensor kept = mask.to(at::kDouble), wide = x.to(at::kDouble);
    ExpectNear(y, adds ? wide * kept + residual.to(at::kDouble) : wide * kept, c.Tolerance(), context);
    EXPECT_TRUE(adds || y.ne(0).logical_or(x.eq(0)).logical_or(mask.eq(0)).all().item<bool>()) << context;
  });
}

// Runs of rows of a larger sum, whose other rows stay unchanged.
TEST(AttentionMergeKernel, RandomCases) {
  ForCases(200, [](KernelCase& c, const std::string& given) {
    const int64_t runs = c.Chance(0.4) ? c.Between(2, 4) : 1, columns = c.Columns(300), gap = c.Between(0, 3);
    const int64_t run = c.Chance(0.2) ? c.Between(60, 140) : c.Rows(), rows = runs * run;
    const std::string context = Concat(given, ", ", runs, " x ", run, " + ", gap, " x ", columns);
    const at::Tensor whole = c.Values({runs, run + gap, columns}, at::kFloat), part = c.Values({rows, columns});
    const at::Tensor whole_lse = at::randn({runs, run + gap}) * 20, part_lse = at::randn({rows}) * 20;
    if (run > 2) whole_lse[0][0].fill_(-INFINITY), part_lse[1].fill_(-INFINITY);
    const auto seen = [&](const at::Tensor& of) { return of.narrow(1, 0, run).flatten(0, 1).to(at::kDouble); };
    const at::Tensor a = seen(whole_lse), b = part_lse.to(at::kDouble), both = at::logaddexp(a, b);
    const at::Tensor wanted =
        seen(whole) * (a - both).exp().unsqueeze(1) + part.to(at::kDouble) * (b - both).exp().unsqueeze(1);
    const at::Tensor others = whole.narrow(1, run, gap).clone();
    ascendc::AttentionMerge(c.place(), c.element(), Of<float>(whole), Of<float>(whole_lse), part.data_ptr(),
                            Of<float>(part_lse),
                            {.rows = static_cast<uint64_t>(rows),
                             .columns = static_cast<uint64_t>(columns),
                             .run_rows = static_cast<uint64_t>(run),
                             .run_stride = static_cast<uint64_t>(run + gap)});
    ExpectNear(seen(whole), wanted, 1e-5, context + ", sum");
    ExpectNear(seen(whole_lse), both, 1e-6, context + ", lse");
    EXPECT_TRUE(whole.narrow(1, run, gap).equal(others)) << context;
  });
}

TEST(AttentionMergeKernel, RowsWithoutKeysStayEmpty) {
  const at::Tensor sum = at::zeros({1, 8}), part = at::zeros({1, 8}), lse = at::full({1}, -INFINITY),
                   other = at::full({1}, -INFINITY);
  ascendc::AttentionMerge(PlaceOf(sum), ascendc::Element::kFloat, Of<float>(sum), Of<float>(lse), part.data_ptr(),
                          Of<float>(other), {1, 8});
  EXPECT_EQ(sum.abs().sum().item<float>(), 0.0f);
  EXPECT_LT(lse.item<float>(), -1e29f);
}

TEST(AttentionSinksKernel, RandomCases) {
  ForCases(60, [](KernelCase& c, const std::string& given) {
    const int64_t unit = c.type() == at::kFloat ? 8 : 16;
    const int64_t heads = c.Chance(0.2) ? c.Between(60, 140) : c.Between(1, 9), tokens = c.Between(0, 6);
    const int64_t columns = unit * (c.Chance(0.1) ? c.Between(30, 48) : c.Between(1, 16)), rows = tokens * heads;
    const std::string context = Concat(given, ", ", tokens, " x ", heads, " x ", columns);
    const at::Tensor output = c.Values({rows, columns}), lse = at::randn({rows}) * 20, sinks = at::randn({heads}) * 20;
    if (rows > 2) lse[1].fill_(-INFINITY), output[1].zero_();
    const at::Tensor every = sinks.to(at::kDouble).repeat({tokens}), before = lse.to(at::kDouble);
    const at::Tensor both = at::logaddexp(before, every);
    const at::Tensor wanted = output.to(at::kDouble) * (before - both).exp().unsqueeze(1);
    const ascendc::SinkShape shape{static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                                   static_cast<uint64_t>(heads)};
    const auto again = static_cast<int64_t>(ascendc::kSinksAgain);
    const at::Tensor expanded = sinks.repeat({again / heads + 2}).narrow(0, 0, heads + again).contiguous();
    EXPECT_EQ(ascendc::WhyNotSinks(c.element(), shape), nullptr) << context;
    ascendc::AttentionSinks(c.place(), c.element(), output.data_ptr(), Of<float>(lse), Of<float>(expanded), shape);
    ExpectNear(output, wanted, c.Tolerance() + 1e-5, context + ", output");
    ExpectNear(lse, both, 1e-6, context + ", lse");
  });
}

}  // namespace
}  // namespace trireme
