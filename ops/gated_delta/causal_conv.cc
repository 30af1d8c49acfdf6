#include "ops/gated_delta/causal_conv.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SavedPlaces : torch::CustomClassHolder {
  explicit SavedPlaces(std::shared_ptr<const ConvPlaces> places) : places(std::move(places)) {}
  const std::shared_ptr<const ConvPlaces> places;
};

at::Tensor IndicesOn(const at::Device& device, const std::vector<int64_t>& indices) {
  return at::tensor(indices, at::kLong).to(device);
}

// A tap of the convolution: which tokens have one `back` tokens before them, in their run: [tokens - back, 1], or in
// their prefix.
struct Tap {
  int64_t back = 0;
  at::Tensor weight;  // [channels]
  at::Tensor inside;
  at::Tensor reaching, sources;  // undefined: none
};

std::vector<Tap> TapsOf(const at::Tensor& weight, const ConvPlaces& places) {
  const int64_t taps = weight.size(1), tokens = std::ssize(places.places);
  const at::Tensor in_run = IndicesOn(weight.device(), places.places);
  std::vector<Tap> found;
  for (int64_t back = 0; back < std::min(taps, tokens); ++back) {
    Tap tap{.back = back, .weight = weight.select(1, taps - 1 - back)};
    tap.inside = in_run.narrow(0, back, tokens - back).ge(back).unsqueeze(1).to(weight.scalar_type());
    const ConvPlaces::Reach& reach = places.reaches.at(static_cast<size_t>(back));
    if (!reach.tokens.empty()) tap.reaching = IndicesOn(weight.device(), reach.tokens);
    if (!reach.tokens.empty()) tap.sources = IndicesOn(weight.device(), reach.sources);
    found.push_back(std::move(tap));
  }
  return found;
}

at::Tensor Mixed(const at::Tensor& x, const std::vector<Tap>& taps) {
  at::Tensor mixed = at::zeros_like(x);
  for (const Tap& tap : taps) {
    const int64_t count = x.size(0) - tap.back;
    mixed.narrow(0, tap.back, count).addcmul_(x.narrow(0, 0, count) * tap.inside, tap.weight);
    if (tap.reaching.defined()) mixed.index_add_(0, tap.reaching, x.index_select(0, tap.sources) * tap.weight);
  }
  return mixed;
}

struct CausalConvFunction : torch::autograd::Function<CausalConvFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const c10::intrusive_ptr<SavedPlaces>& saved) {
    context->save_for_backward({x, weight});
    context->saved_data["places"] = c10::IValue::make_capsule(saved);
    return at::silu(Mixed(x.to(at::kFloat), TapsOf(weight, *saved->places))).to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto capsule = context->saved_data["places"].toCapsule();
    const std::vector<Tap> taps = TapsOf(saved[1], *static_cast<SavedPlaces*>(capsule.get())->places);
    const at::Tensor x = saved[0].to(at::kFloat);
    const at::Tensor gradient = at::silu_backward(gradients[0].to(at::kFloat), Mixed(x, taps));
    at::Tensor to_x = at::zeros_like(x), to_weight = at::zeros_like(saved[1]);
    for (const Tap& tap : taps) {
      const int64_t count = x.size(0) - tap.back;
      at::Tensor to_tap = to_weight.select(1, to_weight.size(1) - 1 - tap.back);
      const at::Tensor arriving = gradient.narrow(0, tap.back, count) * tap.inside;
      to_x.narrow(0, 0, count).addcmul_(arriving, tap.weight);
      to_tap.add_((arriving * x.narrow(0, 0, count)).sum(0));
      if (!tap.reaching.defined()) continue;
      const at::Tensor reaching = gradient.index_select(0, tap.reaching);
      to_x.index_add_(0, tap.sources, reaching * tap.weight);
      to_tap.add_((reaching * x.index_select(0, tap.sources)).sum(0));
    }
    return {to_x.to(saved[0].scalar_type()), to_weight, at::Tensor()};
  }
};

}  // namespace

at::Tensor CausalConv(const at::Tensor& x, const at::Tensor& weight, std::shared_ptr<const ConvPlaces> places) {
  return CausalConvFunction::apply(x, weight, c10::make_intrusive<SavedPlaces>(std::move(places)));
}

}  // namespace trireme
