#include "parallel/layers/tiles.h"

#include <ATen/ops/cat.h>
#include <torch/csrc/autograd/custom_function.h>

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const Weight* TileWeight(AutogradContext* context, const char* name) {
  return reinterpret_cast<const Weight*>(context->saved_data[name].toInt());
}

struct ClassTokenFunction : torch::autograd::Function<ClassTokenFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& places,
                            const Weight* class_token, const Weight* positions) {
    context->save_for_backward({places});
    context->saved_data["class"] = reinterpret_cast<int64_t>(class_token);
    context->saved_data["positions"] = reinterpret_cast<int64_t>(positions);
    const int64_t states = places.size(0), hidden = x.size(1);
    const at::Tensor patches = x.view({-1, states - 1, hidden});
    const at::Tensor first = class_token->value.expand({patches.size(0), 1, hidden});
    return (at::cat({first, patches}, 1) + positions->value.index_select(1, places)).view({-1, hidden});
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor places = context->get_saved_variables()[0];
    const Weight *class_token = TileWeight(context, "class"), *positions = TileWeight(context, "positions");
    const int64_t states = places.size(0), hidden = gradients[0].size(1);
    const at::Tensor tiles = gradients[0].reshape({-1, states, hidden});
    const at::Tensor sum = tiles.to(at::kFloat).sum(0, /*keepdim=*/true);
    if (class_token->trained()) class_token->gradient_sum().add_(sum.narrow(1, 0, 1));
    if (positions->trained()) positions->gradient_sum().index_add_(1, places, sum);
    return {tiles.narrow(1, 1, states - 1).reshape({-1, hidden}), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

struct LayerScaleFunction : torch::autograd::Function<LayerScaleFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Weight* scale) {
    context->save_for_backward({x});
    context->saved_data["scale"] = reinterpret_cast<int64_t>(scale);
    return x * scale->value;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    const Weight* scale = TileWeight(context, "scale");
    if (scale->trained()) scale->gradient_sum().add_((gradients[0].to(at::kFloat) * x).sum(0));
    return {gradients[0] * scale->value, at::Tensor()};
  }
};

}  // namespace

at::Tensor WithClassTokens(const at::Tensor& x, const at::Tensor& places, const Weight& class_token,
                           const Weight& positions) {
  return ClassTokenFunction::apply(x, places, &class_token, &positions);
}

at::Tensor PatchStates(const at::Tensor& x, int64_t side) {
  if (side == 0) return x;
  const int64_t patches = side * side;
  return x.reshape({-1, 1 + patches, x.size(1)}).narrow(1, 1, patches).reshape({-1, x.size(1)});
}

at::Tensor LayerScale(const at::Tensor& x, const Weight* scale) {
  return scale == nullptr ? x : LayerScaleFunction::apply(x, scale);
}

}  // namespace trireme
