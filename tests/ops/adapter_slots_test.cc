// LoRA adapters that hold several models' side by side: each row by the plain formula of its own model, values and
// gradients; what is not a number stays with its model.
#include <limits>

#include "core/base/text.h"
#include "ops/linear/linear.h"
#include "ops/low_rank/low_rank.h"
#include "tests/ops/compare.h"

namespace trireme {
namespace {

std::shared_ptr<const AdapterSlots> Slots(int64_t slots, const std::vector<int64_t>& slot_of) {
  return std::make_shared<const AdapterSlots>(slots, at::tensor(slot_of, at::kLong), at::kCPU);
}

// A row with its slot's ranks of one adapter; -1: with none.
at::Tensor OfRow(const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, int64_t slot, int64_t rank,
                 double scale) {
  if (slot < 0) return at::zeros({1, b.size(0)}, x.options());
  return scale * at::linear(at::linear(x, a.narrow(0, slot * rank, rank)), b.narrow(1, slot * rank, rank));
}

// Sorted by model, mixed, one model alone, with padding.
const std::vector<std::vector<int64_t>> kCases = {{0, 0, 0, 1, 1, 2, 2, 2},
                                                  {2, 0, 1, 0, -1, 2, 1, 0},
                                                  {1, 1, 1, 1, 1, 1, 1, 1},
                                                  {0, 0, -1, -1, 2, 2, -1, -1},
                                                  {-1, -1, -1, -1, -1, -1, -1, -1}};

TEST(AdapterSlots, EachRowIsThePlainFormulaOfItsModel) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const std::vector<int64_t>& slot_of : kCases) {
      Weight weight{"w", Random({11, 9}, type), {}},
          a = TrainedWeight({12, 9}, type);  // two blocks, three slots of rank 2
      Weight b0 = TrainedWeight({5, 6}, type), b1 = TrainedWeight({4, 6}, type);
      const LowRankWeights adapters{
          .a = &a, .blocks = {{.b = &b0, .scale = 2}, {.b = &b1, .scale = 0.5, .first_rank = 6, .first_output = 7}}};
      for (const bool in_one : {true, false}) {
        Compare({.inputs = {Random({8, 9}, type)},
                 .weights = {&a, &b0, &b1},
                 .op =
                     [&](const Tensors& x) {
                       const LowRankInput input{.x = x[0], .slots = Slots(3, slot_of)};
                       return Tensors{in_one ? LinearWithLowRank(input, weight, nullptr, adapters)
                                             : AddLowRank(Linear(x[0], weight), input, adapters)};
                     },
                 .plain =
                     [&](const Tensors& x, const Tensors& w) {
                       Tensors rows;
                       for (int64_t i = 0; i < 8; ++i) {
                         const at::Tensor own = x[0].narrow(0, i, 1);
                         const at::Tensor first = OfRow(own, w[0].narrow(0, 0, 6), w[1], slot_of[i], 2, 2);
                         const at::Tensor second = OfRow(own, w[0].narrow(0, 6, 6), w[2], slot_of[i], 2, 0.5);
                         rows.push_back(at::linear(own, weight.value.to(at::kDouble)) +
                                        at::cat({first, at::zeros({1, 2}, own.options()), second}, 1));
                       }
                       const at::Tensor zero =
                           (w[0].sum() + w[1].sum() + w[2].sum()) * 0;  // so that all have gradients
                       return Tensors{at::cat(rows) + zero};
                     }},
                Concat(type, in_one ? " in one, " : " added, ", Join(slot_of, " ")));
      }
    }
  }
}

TEST(AdapterSlots, OfExpertsEachWithRowsOfSeveralModels) {
  const std::vector<int64_t> slot_of = {0, 1, 1, 0, 1, 1, 0, 0, 1};
  Weight weight = TrainedWeight({3, 4, 6}), a = TrainedWeight({3, 4, 6}), b = TrainedWeight({3, 4, 4});
  const LowRankWeights adapters{.a = &a, .blocks = {{.b = &b, .scale = 3}}};
  const auto ends = std::make_shared<const RowEnds>(std::vector<int64_t>{4, 4, 9});
  Compare(
      {.inputs = {Random({9, 6})},
       .weights = {&weight, &a, &b},
       .op =
           [&](const Tensors& x) {
             return Tensors{AddLowRank(GroupedLinear(x[0], weight, ends),
                                       {.x = x[0], .ends = ends, .slots = Slots(2, slot_of)}, adapters)};
           },
       .plain =
           [&](const Tensors& x, const Tensors& w) {
             Tensors rows;
             for (int64_t i = 0; i < 9; ++i) {
               const int64_t expert = i < 4 ? 0 : 2;
               const at::Tensor own = x[0].narrow(0, i, 1);
               rows.push_back(at::linear(own, w[0][expert]) + OfRow(own, w[1][expert], w[2][expert], slot_of[i], 2, 3));
             }
             return Tensors{at::cat(rows)};
           }},
      "experts");
}

TEST(AdapterSlots, WhatIsNotANumberStaysWithItsModel) {
  Weight weight{"w", Random({5, 9}), {}}, a = TrainedWeight({6, 9}), b = TrainedWeight({5, 6});
  const LowRankWeights adapters{.a = &a, .blocks = {{.b = &b}}};
  at::Tensor x = Random({6, 9});
  x[2].fill_(std::numeric_limits<float>::quiet_NaN());
  x.requires_grad_();
  const LowRankInput input{.x = x, .slots = Slots(3, {0, 0, 1, 1, 2, 0})};
  const at::Tensor y = LinearWithLowRank(input, weight, nullptr, adapters);
  torch::autograd::backward({y}, {Random({6, 5})});
  for (const int64_t slot : {0, 1, 2}) {
    EXPECT_EQ(a.gradient.narrow(0, 2 * slot, 2).isfinite().all().item<bool>(), slot != 1) << slot;
    EXPECT_EQ(b.gradient.narrow(1, 2 * slot, 2).isfinite().all().item<bool>(), slot != 1) << slot;
  }
}

}  // namespace
}  // namespace trireme
