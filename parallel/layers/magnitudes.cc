#include "parallel/layers/magnitudes.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/dequantise/dequantise.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

constexpr double kLeastSquare = 1e-30;  // of padding, whose rows and magnitudes are zero

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor OutputsOfBlock(const at::Tensor& outputs, const MagnitudeBlock& block) {
  return outputs.narrow(-1, block.first_output, block.magnitude->value.size(0));
}

struct ScaleFunction : torch::autograd::Function<ScaleFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& y, const std::vector<MagnitudeBlock>* blocks,
                            const at::Tensor& lengths) {
    const at::Tensor scales = at::ones_like(lengths);
    for (const MagnitudeBlock& block : *blocks) {
      OutputsOfBlock(scales, block).copy_(block.magnitude->value.to(at::kFloat) / OutputsOfBlock(lengths, block));
    }
    context->saved_data["blocks"] = reinterpret_cast<int64_t>(blocks);
    context->save_for_backward({y, scales, lengths});
    return y * scales.to(y.scalar_type());
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto* blocks = reinterpret_cast<const std::vector<MagnitudeBlock>*>(context->saved_data["blocks"].toInt());
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &y = saved[0], &scales = saved[1], &lengths = saved[2], &gradient = gradients[0];
    for (const MagnitudeBlock& block : *blocks) {
      if (!block.magnitude->trained()) continue;
      const at::Tensor products = OutputsOfBlock(gradient, block) * OutputsOfBlock(y, block);
      at::Tensor sum = block.magnitude->gradient_sum();
      sum.add_(products.sum(0, /*keepdim=*/false, at::kFloat) / OutputsOfBlock(lengths, block));
    }
    return {gradient * scales.to(gradient.scalar_type()), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

// |w + s bA|² = |w|² + 2 s b · (A w) + s² b (A Aᵀ) bᵀ: the sum of W and the adapter's product is never made.
at::Tensor RowLengths(const Weight& weight, const LowRankWeights& adapters, Communicator* inputs) {
  const at::NoGradGuard no_graph;
  const at::Tensor w = MatrixOf(weight).to(at::kFloat), all_a = adapters.a->value.to(at::kFloat);
  at::Tensor squares = w.square().sum(1);
  for (const LowRankBlock& block : adapters.blocks) {
    const at::Tensor b = block.b->value.to(at::kFloat);
    const at::Tensor a = all_a.narrow(0, block.first_rank, b.size(1));
    const at::Tensor rows = w.narrow(0, block.first_output, b.size(0));
    const at::Tensor across = at::mm(rows, a.t()) * 2, of_adapter = at::mm(b, at::mm(a, a.t())) * block.scale;
    squares.narrow(0, block.first_output, b.size(0)).add_(((across + of_adapter) * b).sum(1), block.scale);
  }
  if (inputs != nullptr) AllReduce(squares, *inputs);
  return squares.clamp_min(kLeastSquare).sqrt();
}

at::Tensor ScaleToMagnitudes(const at::Tensor& y, const std::vector<MagnitudeBlock>& blocks,
                             const at::Tensor& lengths) {
  return ScaleFunction::apply(y, &blocks, lengths);
}

}  // namespace trireme
