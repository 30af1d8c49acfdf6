#include "ops/gated_delta/causal_conv.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "ops/gated_delta/ascendc.h"
#include "ops/kernel_place.h"
#include "ops/operator.h"

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

at::Tensor ReferenceForwardOfCausalConv(const at::Tensor& x, const at::Tensor& weight, const ConvPlaces& places) {
  return at::silu(Mixed(x.to(at::kFloat), TapsOf(weight, places))).to(x.scalar_type());
}

struct ConvGradients {
  at::Tensor x, weight;
};

ConvGradients ReferenceBackwardOfCausalConv(const at::Tensor& given, const at::Tensor& weight, const ConvPlaces& places,
                                            const at::Tensor& output) {
  const std::vector<Tap> taps = TapsOf(weight, places);
  const at::Tensor x = given.to(at::kFloat);
  const at::Tensor gradient = at::silu_backward(output.to(at::kFloat), Mixed(x, taps));
  at::Tensor to_x = at::zeros_like(x), to_weight = at::zeros_like(weight);
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
  return {to_x.to(given.scalar_type()), to_weight};
}

ascendc::ConvShape ShapeOfCausalConv(const at::Tensor& x, const at::Tensor& weight) {
  return {.tokens = static_cast<uint64_t>(x.size(0)),
          .channels = static_cast<uint64_t>(x.size(1)),
          .taps = static_cast<uint64_t>(weight.size(1))};
}

// What the kernels read beside the tokens.
struct KernelInputs {
  at::Tensor weight, places;

  KernelInputs(const at::Tensor& given, const ConvPlaces& in_runs)
      : weight(given.t().contiguous()), places(IndicesOn(given.device(), in_runs.places).to(at::kInt)) {}
  const float* taps() const { return weight.const_data_ptr<float>(); }
  const int32_t* in_run() const { return places.const_data_ptr<int32_t>(); }
};

at::Tensor KernelForwardOfCausalConv(const at::Tensor& given, const at::Tensor& weight, const ConvPlaces& places) {
  const at::Tensor x = given.contiguous(), y = at::empty_like(x);
  const KernelInputs inputs(weight, places);
  ascendc::CausalConvForward(PlaceOf(x), ElementOf(x), x.data_ptr(), inputs.taps(), inputs.in_run(),
                             ShapeOfCausalConv(x, weight), y.data_ptr());
  return y;
}

ConvGradients KernelBackwardOfCausalConv(const at::Tensor& given, const at::Tensor& weight, const ConvPlaces& places,
                                         const at::Tensor& output) {
  const at::Tensor x = given.contiguous(), gradient = output.contiguous(), to_x = at::empty_like(x);
  const KernelInputs inputs(weight, places);
  const ascendc::ConvShape shape = ShapeOfCausalConv(x, weight);
  const ascendc::KernelPlace place = PlaceOf(x);
  const auto parts = static_cast<int64_t>(ascendc::ConvSegments(place, shape));
  const at::Tensor to_weight = at::zeros({parts, weight.size(1), weight.size(0)}, weight.options());
  ascendc::CausalConvBackward(PlaceOf(x), ElementOf(x), x.data_ptr(), inputs.taps(), inputs.in_run(),
                              gradient.data_ptr(), shape, to_x.data_ptr(), to_weight.mutable_data_ptr<float>());
  return {to_x, to_weight.sum(0).t()};
}

struct ConvCase {
  const at::Tensor& x;
  const at::Tensor& weight;
  const ConvPlaces& places;
};

std::string WhyNotKernelOfCausalConv(const ConvCase& c) {
  if (std::string why = WhyNoKernel(at::empty({0}, c.x.options())); !why.empty())
    return why;  // strided ones are copied
  if (c.weight.size(1) > static_cast<int64_t>(ascendc::kMostTaps))
    return Concat(c.weight.size(1), " taps; the kernel takes ", ascendc::kMostTaps);
  const bool reaches = std::any_of(c.places.reaches.begin(), c.places.reaches.end(),
                                   [](const ConvPlaces::Reach& reach) { return !reach.tokens.empty(); });
  return reaches ? "documents that go on from a prefix" : "";
}

const ImplementationList<ConvCase, decltype(&ReferenceForwardOfCausalConv), decltype(&ReferenceBackwardOfCausalConv)>
    kCausalConv{"causal_conv",
                {{"ascendc", WhyNotKernelOfCausalConv, KernelForwardOfCausalConv, KernelBackwardOfCausalConv},
                 {"aten", nullptr, ReferenceForwardOfCausalConv, ReferenceBackwardOfCausalConv}}};

struct CausalConvFunction : torch::autograd::Function<CausalConvFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const c10::intrusive_ptr<SavedPlaces>& saved) {
    context->save_for_backward({x, weight});
    context->saved_data["places"] = c10::IValue::make_capsule(saved);
    return kCausalConv.Choose({x, weight, *saved->places}).forward(x, weight, *saved->places);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto capsule = context->saved_data["places"].toCapsule();
    const ConvPlaces& places = *static_cast<SavedPlaces*>(capsule.get())->places;
    const ConvGradients found =
        kCausalConv.Choose({saved[0], saved[1], places}).backward(saved[0], saved[1], places, gradients[0]);
    return {found.x, found.weight, at::Tensor()};
  }
};

}  // namespace

at::Tensor CausalConv(const at::Tensor& x, const at::Tensor& weight, std::shared_ptr<const ConvPlaces> places) {
  return CausalConvFunction::apply(x, weight, c10::make_intrusive<SavedPlaces>(std::move(places)));
}

namespace {

std::shared_ptr<const ConvPlaces> OneRun(int64_t tokens, int64_t taps) {
  return std::make_shared<const ConvPlaces>(PlacesInRuns({{0, tokens}}, tokens, taps));
}

// Four taps, one sequence.
std::vector<BenchCase> BenchConv(const BenchSize& s) {
  constexpr int64_t kTaps = 4;
  const at::Tensor x = BenchLeaf({s.rows, s.columns}, s.type), weight = BenchInput({s.columns, kTaps}, at::kFloat);
  const auto places = OneRun(s.rows, kTaps);
  const double bytes = static_cast<double>(x.nbytes());
  return {{.forward_bytes = 2 * bytes, .backward_bytes = 3 * bytes, .input = x, .run = [=] {
             return BenchCase::Tensors{CausalConv(x, weight, places)};
           }}};
}

}  // namespace

Operator operators::causal_conv() {
  return {.name = kCausalConv.op(),
          .summary = "causal convolution over the tokens of each channel, then silu, before gated_delta",
          .implementations = kCausalConv.names(),
          .report =
              [](const at::Tensor& like) {
                const at::Tensor weight = at::empty({1, 4}, like.options().dtype(at::kFloat));
                const ConvPlaces places = PlacesInRuns({{0, 8}}, 8, 4),
                                 after = PlacesInRuns({{0, 4}, {4, 8, 0, 2}}, 8, 4);
                return std::vector{kCausalConv.Report("[any, any]", {like, weight, places}),
                                   kCausalConv.Report("[any, any] after a prefix", {like, weight, after})};
              },
          .bench = BenchConv};
}

}  // namespace trireme
