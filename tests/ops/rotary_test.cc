// The rotary embedding against the plain formula.
#include "ops/rotary/rotary.h"

#include "tests/ops/compare.h"

namespace trireme {
namespace {

TEST(Rotary, RotatesPairsByPosition) {
  const at::Tensor positions = at::tensor({0, 1, 5}, at::kLong);
  const RotaryTable table = MakeRotaryTable(positions, {1.0, 0.1});
  Compare({.inputs = {Random({3, 2, 4})},
           .weights = {},
           .op = [&](const Tensors& x) { return Tensors{Rotate(x[0], table)}; },
           .plain =
               [&](const Tensors& x, const Tensors&) {
                 const at::Tensor angle =
                     positions.to(at::kDouble).view({3, 1, 1}) * at::tensor({1.0, 0.1}, at::kDouble);
                 const at::Tensor a = x[0].narrow(2, 0, 2), b = x[0].narrow(2, 2, 2);
                 return Tensors{at::cat({a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()}, 2)};
               }},
          "fp32");
}

TEST(Rotary, LeavesTheRestOfAHeadAsItIs) {
  const RotaryTable table = MakeRotaryTable(at::tensor({0, 1, 5}, at::kLong), {1.0, 0.1});
  Compare({.inputs = {Random({3, 2, 7})},
           .weights = {},
           .op = [&](const Tensors& x) { return Tensors{Rotate(x[0], table)}; },
           .plain =
               [&](const Tensors& x, const Tensors&) {
                 const at::Tensor c = table.cosine.to(at::kDouble).unsqueeze(1),
                                  s = table.sine.to(at::kDouble).unsqueeze(1);
                 const at::Tensor a = x[0].narrow(2, 0, 2), b = x[0].narrow(2, 2, 2);
                 return Tensors{at::cat({a * c - b * s, b * c + a * s, x[0].narrow(2, 4, 3)}, 2)};
               }},
          "fp32");
}

}  // namespace
}  // namespace trireme
