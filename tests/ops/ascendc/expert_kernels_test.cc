// Rows permuted and combined, the router, low-rank matmul: kernels against ATen in fp64, forward and
// gradient.
#include <torch/csrc/autograd/autograd.h>

#include "ops/low_rank/ascendc.h"
#include "ops/moe_permute/ascendc.h"
#include "ops/router/ascendc.h"
#include "tests/ops/ascendc/kernel_case.h"

namespace trireme {
namespace {

TEST(RowKernels, RandomCases) {
  ForCases(300, [](KernelCase& c, const std::string& given) {
    const int64_t from_rows = c.Between(1, 8), rows = c.Rows(), terms = c.Between(1, 4);
    const int64_t columns = c.Chance(0.02) ? 12001 : c.Columns();
    const std::string context = Concat(given, ", ", rows, " x ", columns, ", ", terms, " terms");
    const at::Tensor from = c.Values({from_rows, columns}), index = at::randint(-1, from_rows, {rows, terms}, at::kInt);
    const at::Tensor weights = at::randn({rows, terms});
    const bool weighted = c.Chance(0.5);
    const at::Tensor ones = weighted ? weights : at::ones_like(weights);
    const ascendc::RowShape shape{static_cast<uint64_t>(from_rows), static_cast<uint64_t>(rows),
                                  static_cast<uint64_t>(columns), static_cast<uint64_t>(terms)};
    // Gathered rows in fp64, zeros where there is none: [rows, terms, columns].
    const at::Tensor picked = from.to(at::kDouble).index({index.clamp_min(0).to(at::kLong)}) * index.ge(0).unsqueeze(2);
    const at::Tensor combined = c.Empty({rows, columns});
    ascendc::CombineRows(c.place(), c.element(), from.data_ptr(), Of<int32_t>(index),
                         weighted ? Of<float>(weights) : nullptr, shape, combined.data_ptr());
    ExpectNear(combined, (picked * ones.to(at::kDouble).unsqueeze(2)).sum(1), c.Tolerance(), context + ", combined");

    const at::Tensor gradient = c.Values({rows, columns}), dots = c.Empty({rows, terms}, at::kFloat);
    ascendc::DotRows(c.place(), c.element(), gradient.data_ptr(), from.data_ptr(), Of<int32_t>(index), shape,
                     Of<float>(dots));
    const at::Tensor products = picked * gradient.to(at::kDouble).unsqueeze(1);
    // Terms may cancel: the error bound of a sum follows from their magnitudes.
    const double sizes = rows * terms * columns == 0 ? 0 : products.abs().sum(2).max().item<double>();
    ExpectNear(dots, products.sum(2), 1e-5, context + ", dots", 1e-37 + 1e-6 * sizes);

    const at::Tensor flat = index.flatten(), moved = c.Empty({rows * terms, columns}), flat_weights = weights.flatten();
    ascendc::RowShape all = shape;
    all.rows *= all.terms;
    ascendc::GatherRows(c.place(), c.element(), from.data_ptr(), Of<int32_t>(flat),
                        weighted ? Of<float>(flat_weights) : nullptr, all, moved.data_ptr());
    const at::Tensor wanted = (picked * ones.to(at::kDouble).unsqueeze(2)).view({rows * terms, columns});
    ExpectNear(moved, wanted, weighted ? c.Tolerance() : 1e-9, context + ", moved");
  });
}

// A permutation and its inverse: what an expert layer does around its experts.
TEST(RowKernels, PermuteThenUnpermuteIsTheIdentity) {
  const at::Tensor x = at::randn({10, 33}), order = at::randperm(20, at::kInt);
  const at::Tensor source = order.div(2, "floor").to(at::kInt), inverse = order.argsort().to(at::kInt);
  const at::Tensor moved = at::empty({20, 33}), back = at::empty({10, 33}), half = at::full({10, 2}, 0.5f);
  const ascendc::KernelPlace place = PlaceOf(x);
  ascendc::GatherRows(place, ascendc::Element::kFloat, x.data_ptr(), Of<int32_t>(source), nullptr, {10, 20, 33},
                      moved.data_ptr());
  ascendc::CombineRows(place, ascendc::Element::kFloat, moved.data_ptr(), Of<int32_t>(inverse), Of<float>(half),
                       {20, 10, 33, 2}, back.data_ptr());
  EXPECT_TRUE(back.equal(x));
}

TEST(RouterKernel, RandomCases) {
  ForCases(400, [](KernelCase& c, const std::string& given) {
    const int64_t groups = c.Chance(0.4) ? c.Between(2, 8) : 1, top_groups = c.Between(1, groups);
    const int64_t tokens = c.Rows(), size = c.Between(1, 80 / groups), experts = groups * size;
    const int64_t top = c.Between(1, std::min<int64_t>(size * top_groups, 8));
    ascendc::RouterShape s{static_cast<uint64_t>(tokens), static_cast<uint64_t>(experts), static_cast<uint64_t>(top)};
    s.sigmoid = c.Chance(0.5), s.normalise = c.Chance(0.5), s.scale = c.Pick({1.0f, 2.5f});
    s.eps = c.Pick({0.0f, 0.125f}), s.two_of_group = c.Chance(0.5);
    s.groups = static_cast<uint64_t>(groups), s.top_groups = static_cast<uint64_t>(top_groups);
    const std::string context =
        Concat(given, ", ", tokens, " x ", experts, ", top ", top, s.sigmoid ? " sigmoid" : " softmax",
               s.normalise ? " normalised" : "", ", ", top_groups, " of ", groups, " groups");
    const at::Tensor logits = (at::randn({tokens, experts}) * 2).to(c.type()), bias = at::randn({experts}) * 0.3;
    const bool biased = c.Chance(0.4);
    const at::Tensor probabilities = c.Empty({tokens, experts}, at::kFloat),
                     weights = c.Empty({tokens, top}, at::kFloat);
    const at::Tensor index = c.Empty({tokens, top}, at::kInt);
    ascendc::RouterForward(c.place(), c.element(), logits.data_ptr(), biased ? Of<float>(bias) : nullptr, s,
                           Of<float>(probabilities), Of<int32_t>(index), Of<float>(weights));
    const at::Tensor x = logits.to(at::kDouble).requires_grad_(), p = s.sigmoid ? x.sigmoid() : x.softmax(1);
    ExpectNear(probabilities, p.detach(), 2e-6, context + ", probabilities");
    if (tokens == 0) return;
    // The same scores in the same order; experts with equal scores may swap, the first comes first.
    at::Tensor scores = probabilities + (biased ? bias : at::zeros_like(bias));
    const at::Tensor chosen = index.to(at::kLong), grouped = scores.view({tokens, groups, size});
    const at::Tensor worth = std::get<0>(grouped.topk(s.two_of_group && size > 1 ? 2 : 1)).sum(2);
    const at::Tensor least = std::get<0>(worth.topk(top_groups)).select(1, top_groups - 1).unsqueeze(1);
    scores = grouped.masked_fill(worth.lt(least).unsqueeze(2), -kInfinity).view({tokens, experts});
    EXPECT_TRUE(scores.gather(1, chosen).equal(std::get<0>(scores.topk(top, 1)))) << context;
    EXPECT_EQ(std::get<0>(chosen.sort(1)).diff(1, 1).eq(0).sum().item<int64_t>(), 0)
        << context << ", an expert was chosen twice";
    const at::Tensor picked = p.gather(1, chosen),
                     wanted = (s.normalise ? picked / (picked.sum(1, true) + s.eps) : picked) * s.scale;
    ExpectNear(weights, wanted.detach(), 4e-6, context + ", weights");

    const at::Tensor gradient = at::randn({tokens, top}), other = at::randn({tokens, experts}),
                     result = c.Empty({tokens, experts});
    const bool given_other = c.Chance(0.5);
    ascendc::RouterBackward(c.place(), c.element(), Of<float>(probabilities), Of<int32_t>(index), Of<float>(gradient),
                            given_other ? Of<float>(other) : nullptr, s, result.data_ptr());
    torch::autograd::backward({wanted, p},
                              {gradient.to(at::kDouble), other.to(at::kDouble) * (given_other ? 1.0 : 0.0)});
    ExpectNear(result, x.grad(), c.Tolerance() + 2e-5, context + ", gradient",
               /*absolute=*/1e-6);  // alone and normalised, a weight has no gradient
  });
}

TEST(RouterKernel, TiesGoToTheFirst) {
  const at::Tensor logits = at::zeros({1, 9}), probabilities = at::empty({1, 9}), weights = at::empty({1, 3});
  const at::Tensor index = at::empty({1, 3}, at::kInt);
  ascendc::RouterForward(PlaceOf(logits), ascendc::Element::kFloat, logits.data_ptr(), nullptr, {1, 9, 3},
                         Of<float>(probabilities), Of<int32_t>(index), Of<float>(weights));
  EXPECT_TRUE(index.equal(at::tensor({0, 1, 2}, at::kInt).view({1, 3}))) << index;
}

TEST(LoraKernels, RandomCases) {
  ForCases(250, [](KernelCase& c, const std::string& given) {
    const int64_t rows = c.Rows(), rank = c.Between(1, 20), columns = c.Chance(0.03) ? 9001 : c.Columns();
    const ascendc::LoraShape s{static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), static_cast<uint64_t>(rank),
                               0.5f};
    const std::string context = Concat(given, ", ", rows, " x ", columns, ", rank ", rank);
    const at::Tensor x = c.Values({rows, columns}), matrix = c.Values({rank, columns}),
                     low = c.Empty({rows, rank}, at::kFloat);
    ascendc::LoraShrink(c.place(), c.element(), x.data_ptr(), matrix.data_ptr(), s, Of<float>(low));
    const at::Tensor wide = x.to(at::kDouble), wide_matrix = matrix.to(at::kDouble);
    ExpectNear(low, wide.matmul(wide_matrix.t()) * 0.5, 2e-5, context + ", low");
    const at::Tensor base = c.Values({rows, columns}), y = c.Empty({rows, columns});
    const bool adds = c.Chance(0.5);
    ascendc::LoraExpand(c.place(), c.element(), Of<float>(low), matrix.data_ptr(), adds ? base.data_ptr() : nullptr, s,
                        y.data_ptr());
    const at::Tensor wide_low = low.to(at::kDouble), before = adds ? base.to(at::kDouble) : at::zeros_like(wide);
    ExpectNear(y, before + wide_low.matmul(wide_matrix) * 0.5, c.Tolerance(), context + ", expanded");
    const at::Tensor gradient = at::randn({rank, columns}),
                     wanted = gradient.to(at::kDouble) + wide_low.t().matmul(wide) * 0.5;
    ascendc::LoraGradient(c.place(), c.element(), Of<float>(low), x.data_ptr(), s, Of<float>(gradient));
    ExpectNear(gradient, wanted, 1e-5, context + ", gradient");
  });
}

}  // namespace
}  // namespace trireme
