#include "parallel/layers/wide_norm.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/rms_norm/rms_norm.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Over all ranks, of one sum per token.
at::Tensor SumOverRanks(const at::Tensor& products, Communicator* group) {
  const at::Tensor sums = products.sum(-1, /*keepdim=*/true).contiguous();
  if (group != nullptr) AllReduce(sums, *group);
  return sums;
}

at::Tensor Factor(const Weight& weight, double offset) { return weight.value.to(at::kFloat) + offset; }

struct WideRmsNormFunction : torch::autograd::Function<WideRmsNormFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Weight* weight, const WideNorm& norm,
                            Communicator* group) {
    const at::Tensor wide = x.to(at::kFloat);
    const at::Tensor squares = SumOverRanks(wide.square(), group);
    const at::Tensor scale = (squares * (1 / static_cast<double>(norm.width * norm.copies)) + norm.eps).rsqrt();
    context->save_for_backward({x, scale});
    context->saved_data["weight"] = reinterpret_cast<int64_t>(weight);
    context->saved_data["group"] = reinterpret_cast<int64_t>(group);
    context->saved_data["elements"] = norm.width * norm.copies;
    context->saved_data["offset"] = norm.offset;
    return (wide * scale * Factor(*weight, norm.offset)).to(x.scalar_type());
  }

  // Of elements that several ranks have, each gets its own outputs' gradient and its part of that of the common scale:
  // their sum over these ranks is the whole, as for all weights that ranks share.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto* weight = reinterpret_cast<const Weight*>(context->saved_data["weight"].toInt());
    auto* group = reinterpret_cast<Communicator*>(context->saved_data["group"].toInt());
    const auto elements = static_cast<double>(context->saved_data["elements"].toInt());
    const at::Tensor normalised = saved[0].to(at::kFloat) * saved[1], gradient = gradients[0].to(at::kFloat);
    if (weight->trained()) {
      at::Tensor sum = weight->gradient_sum();
      sum.add_((gradient * normalised).flatten(0, -2).sum(0));
    }
    const at::Tensor weighted = gradient * Factor(*weight, context->saved_data["offset"].toDouble());
    const at::Tensor common = SumOverRanks(weighted * normalised, group) * (1 / elements);
    const at::Tensor result = (weighted - normalised * common) * saved[1];
    return {result.to(saved[0].scalar_type()), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor WideRmsNorm(const at::Tensor& x, const Weight& weight, const WideNorm& norm, Communicator* group) {
  return WideRmsNormFunction::apply(x, &weight, norm, group);
}

at::Tensor OffsetRmsNorm(const at::Tensor& x, const Weight& weight, double eps, double offset) {
  if (offset == 0) return RmsNorm(x, weight, eps);
  return WideRmsNorm(x, weight, {.width = x.size(-1), .eps = eps, .offset = offset}, nullptr);
}

}  // namespace trireme
