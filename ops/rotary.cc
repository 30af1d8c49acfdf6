#include "ops/rotary.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/npu_fused.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor NpuTurn(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  const auto whole = [&](const at::Tensor& half) {
    return at::cat({half, half}, -1)
        .to(x.scalar_type())
        .unsqueeze(0)
        .unsqueeze(2);  // [1, tokens, 1, head_dim]
  };
  return npu::Rotate(x.unsqueeze(0).contiguous(), whole(cosine), whole(sine)).squeeze(0);
}

at::Tensor Turn(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  if (npu::Takes(x)) return NpuTurn(x, cosine, sine);
  const int64_t half = x.size(-1) / 2;
  const at::Tensor first = x.narrow(-1, 0, half).to(at::kFloat),
                   second = x.narrow(-1, half, half).to(at::kFloat);
  const at::Tensor c = cosine.unsqueeze(1), s = sine.unsqueeze(1);  // [tokens, 1, head_dim / 2]
  return at::cat({first * c - second * s, second * c + first * s}, -1).to(x.scalar_type());
}

struct RotateFunction : torch::autograd::Function<RotateFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cosine,
                            const at::Tensor& sine) {
    context->save_for_backward({cosine, sine});
    return Turn(x, cosine, sine);
  }

  // The adjoint of a turn is the turn back.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    return {Turn(gradients[0], saved[0], saved[1].neg()), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

RotaryTable MakeRotaryTable(const at::Tensor& positions, const std::vector<double>& frequencies) {
  const at::Tensor steps = at::tensor(frequencies, at::kDouble).to(at::kFloat).to(positions.device());
  const at::Tensor angles = positions.to(at::kFloat).unsqueeze(1) * steps.unsqueeze(0);
  return {angles.cos(), angles.sin()};
}

at::Tensor Rotate(const at::Tensor& x, const RotaryTable& table) {
  return RotateFunction::apply(x, table.cosine, table.sine);
}

}  // namespace trireme
