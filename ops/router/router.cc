#include "ops/router/router.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "core/base/error.h"
#include "ops/cuda/launch.h"
#include "ops/element_types.h"
#include "ops/kernel_place.h"
#include "ops/operator.h"
#include "ops/router/ascendc.h"
#include "ops/weight_gradients.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SavedInput : torch::CustomClassHolder {
  const Weight* weight = nullptr;
  const Weight* bias = nullptr;
  std::function<at::Tensor()> again;
};

struct RouterLogitsFunction : torch::autograd::Function<RouterLogitsFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const LinearInput& input,
                            const Weight* weight, const Weight* bias) {
    auto saved = c10::make_intrusive<SavedInput>();
    saved->weight = weight;
    saved->bias = bias;
    saved->again = input.again;
    if (!input.again) context->save_for_backward({x});
    context->saved_data["saved"] = c10::IValue::make_capsule(saved);
    context->saved_data["type"] = static_cast<int64_t>(x.scalar_type());
    const at::Tensor logits = at::mm(x.to(at::kFloat), weight->value.to(at::kFloat).t());
    return bias == nullptr ? logits : logits + bias->value.to(at::kFloat);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto holder = context->saved_data["saved"].toCapsule();
    auto* saved = static_cast<SavedInput*>(holder.get());
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    const variable_list saved_tensors = context->get_saved_variables();
    const at::Tensor gradient = gradients[0].contiguous(), x = saved_tensors.empty() ? at::Tensor() : saved_tensors[0];
    const Weight* weight = saved->weight;
    if (saved->bias != nullptr && saved->bias->trained()) saved->bias->gradient_sum().add_(gradient.sum(0));
    const at::Tensor input_gradient = at::mm(gradient, weight->value.to(at::kFloat)).to(type);
    WeightGradients::Add([weight, gradient, x, again = std::move(saved->again)] {
      AddWeightGradient(*weight, gradient, (again ? again() : x).to(at::kFloat));
    });
    return {input_gradient, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// Scores of the experts in a token's best groups; minus infinity for the others.
at::Tensor WithinBestGroups(const at::Tensor& scores, const RouterRule& rule) {
  const at::Tensor grouped = scores.view({scores.size(0), rule.groups, -1});
  const at::Tensor worth = rule.group_score == RouterRule::GroupScore::kLargest
                               ? grouped.amax(-1)
                               : std::get<0>(grouped.topk(std::min<int64_t>(2, grouped.size(2)))).sum(-1);
  const at::Tensor best = std::get<1>(worth.topk(rule.top_groups));
  const at::Tensor closed = at::ones_like(worth, at::kBool).scatter_(1, best, false);
  return grouped.masked_fill(closed.unsqueeze(-1), -std::numeric_limits<double>::infinity()).view(scores.sizes());
}

Routing ReferenceChoice(const at::Tensor& logits, const RouterRule& rule, const at::Tensor& bias) {
  const at::Tensor scores = rule.scores == RouterRule::Scores::kSoftmax ? at::softmax(logits, -1) : at::sigmoid(logits);
  at::Tensor choice = scores.detach();
  if (bias.defined()) choice = choice + bias;
  if (rule.groups > 1) choice = WithinBestGroups(choice, rule);
  const at::Tensor experts = std::get<1>(choice.topk(rule.top_k));
  at::Tensor weights = scores.gather(1, experts);
  if (rule.normalise) weights = weights / (weights.sum(-1, /*keepdim=*/true) + rule.normalise_eps);
  if (rule.scale != 1) weights = weights * rule.scale;
  return {experts, weights, scores};
}

ascendc::RouterShape ShapeOfRouter(int64_t tokens, const RouterRule& rule) {
  return {.tokens = static_cast<uint64_t>(tokens),
          .experts = static_cast<uint64_t>(rule.experts),
          .top = static_cast<uint64_t>(rule.top_k),
          .sigmoid = rule.scores == RouterRule::Scores::kSigmoid,
          .normalise = rule.normalise,
          .scale = static_cast<float>(rule.scale),
          .eps = static_cast<float>(rule.normalise_eps),
          .groups = static_cast<uint64_t>(rule.groups),
          .top_groups = static_cast<uint64_t>(rule.top_groups),
          .two_of_group = rule.group_score == RouterRule::GroupScore::kSumOfTwo};
}

struct Chosen {
  at::Tensor scores;   // [tokens, experts] fp32
  at::Tensor index;    // [tokens, top] int32
  at::Tensor weights;  // [tokens, top] fp32
};

// What kernels compute each way; the rest is memory and autograd.
struct RouterPasses {
  void (*forward)(const at::Tensor& logits, const at::Tensor& bias, const RouterRule&, const Chosen& result);
  // `chosen` has the gradient of the weights; `scores_gradient` may be undefined.
  void (*backward)(const Chosen& chosen, const at::Tensor& scores_gradient, const RouterRule&,
                   const at::Tensor& result);
};

const float* DataOrNull(const at::Tensor& tensor) { return tensor.defined() ? Data<float>(tensor) : nullptr; }

constexpr RouterPasses kAscendc{
    [](const at::Tensor& logits, const at::Tensor& bias, const RouterRule& rule, const Chosen& result) {
      ascendc::RouterForward(PlaceOf(logits), ElementOf(logits), logits.data_ptr(), DataOrNull(bias),
                             ShapeOfRouter(logits.size(0), rule), Data<float>(result.scores),
                             Data<int32_t>(result.index), Data<float>(result.weights));
    },
    [](const Chosen& chosen, const at::Tensor& scores_gradient, const RouterRule& rule, const at::Tensor& result) {
      ascendc::RouterBackward(PlaceOf(result), ElementOf(result), Data<float>(chosen.scores),
                              Data<int32_t>(chosen.index), Data<float>(chosen.weights), DataOrNull(scores_gradient),
                              ShapeOfRouter(result.size(0), rule), result.data_ptr());
    }};

cuda::RouterArgs ArgsOfRouter(const Chosen& chosen, const RouterRule& rule) {
  return {.logits = nullptr,
          .bias = nullptr,
          .scores = Data<float>(chosen.scores),
          .index = Data<int32_t>(chosen.index),
          .weights = Data<float>(chosen.weights),
          .scores_gradient = nullptr,
          .logits_gradient = nullptr,
          .tokens = chosen.scores.size(0),
          .experts = static_cast<int>(rule.experts),
          .top = static_cast<int>(rule.top_k),
          .sigmoid = rule.scores == RouterRule::Scores::kSigmoid,
          .normalise = rule.normalise,
          .scale = static_cast<float>(rule.scale),
          .eps = static_cast<float>(rule.normalise_eps)};
}

constexpr RouterPasses kCuda{
    [](const at::Tensor& logits, const at::Tensor& bias, const RouterRule& rule, const Chosen& result) {
      cuda::RouterArgs args = ArgsOfRouter(result, rule);
      args.logits = Data<float>(logits);
      args.bias = DataOrNull(bias);
      CheckLaunch(CudaKernels().router(args, CudaStream()), "router");
    },
    [](const Chosen& chosen, const at::Tensor& scores_gradient, const RouterRule& rule, const at::Tensor& result) {
      cuda::RouterArgs args = ArgsOfRouter(chosen, rule);
      args.scores_gradient = DataOrNull(scores_gradient);
      args.logits_gradient = Data<float>(result);
      CheckLaunch(CudaKernels().router_backward(args, CudaStream()), "router");
    }};

struct SavedRule : torch::CustomClassHolder {
  RouterRule rule;
  const RouterPasses* passes = nullptr;
};

// From logits to weights, scores and the chosen experts, by the kernels.
struct RouterFunction : torch::autograd::Function<RouterFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor* bias,
                               const RouterRule* rule, const RouterPasses* passes) {
    const int64_t tokens = logits.size(0);
    const auto options = logits.options().dtype(at::kFloat);
    const Chosen chosen{at::empty({tokens, rule->experts}, options),
                        at::empty({tokens, rule->top_k}, options.dtype(at::kInt)),
                        at::empty({tokens, rule->top_k}, options)};
    const at::Tensor wide_bias = bias->defined() ? bias->to(at::kFloat).contiguous() : at::Tensor();
    passes->forward(logits, wide_bias, *rule, chosen);
    auto saved = c10::make_intrusive<SavedRule>();
    saved->rule = *rule;
    saved->passes = passes;
    context->saved_data["rule"] = c10::IValue::make_capsule(saved);
    context->saved_data["type"] = static_cast<int64_t>(logits.scalar_type());
    context->save_for_backward({chosen.scores, chosen.index});
    const at::Tensor experts = chosen.index.to(at::kLong);
    context->mark_non_differentiable({experts});
    context->set_materialize_grads(false);
    return {chosen.weights, chosen.scores, experts};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved_tensors = context->get_saved_variables();
    const at::Tensor &scores = saved_tensors[0], &index = saved_tensors[1];
    const auto holder = context->saved_data["rule"].toCapsule();
    const auto* saved = static_cast<SavedRule*>(holder.get());
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    const at::Tensor of_weights =
        gradients[0].defined() ? gradients[0].contiguous() : at::zeros(index.sizes(), scores.options());
    const at::Tensor of_scores = gradients[1].defined() ? gradients[1].contiguous() : at::Tensor();
    const at::Tensor result = at::empty(scores.sizes(), scores.options().dtype(type));
    saved->passes->backward({scores, index, of_weights}, of_scores, saved->rule, result);
    return {result, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

template <const RouterPasses& passes>
Routing KernelChoice(const at::Tensor& logits, const RouterRule& rule, const at::Tensor& bias) {
  const variable_list out = RouterFunction::apply(logits, &bias, &rule, &passes);
  return {.experts = out[2], .weights = out[0], .scores = out[1]};
}

struct RouterCase {
  const at::Tensor& logits;
  const RouterRule& rule;
};

std::string WhyNotKernelOfRouter(const RouterCase& c) {
  if (c.logits.is_cpu() && !KernelsAreWanted()) return "ATen was measured faster on the cpu";
  const char* why = ascendc::WhyNotRouter(ShapeOfRouter(c.logits.size(0), c.rule));
  return Either(WhyNoKernel(c.logits), why == nullptr ? "" : why);
}

std::string WhyNotCudaOfRouter(const RouterCase& c) {
  if (std::string why = WhyNoCudaKernel(c.logits); !why.empty()) return why;
  if (c.logits.scalar_type() != at::kFloat) return "the kernel takes logits in fp32";
  if (c.rule.groups > 1) return "the kernel chooses from all experts, not from groups";
  if (c.rule.experts > cuda::kMostRouted || c.rule.top_k > cuda::kMostTop)
    return Concat(c.rule.top_k, " of ", c.rule.experts, " experts; the kernel takes ", cuda::kMostTop, " of ",
                  cuda::kMostRouted);
  return "";
}

const ImplementationList<RouterCase, decltype(&ReferenceChoice)> kRouter{
    "router",
    {{"cuda", WhyNotCudaOfRouter, KernelChoice<kCuda>},
     {"ascendc", WhyNotKernelOfRouter, KernelChoice<kAscendc>},
     {"aten", nullptr, ReferenceChoice}}};

}  // namespace

at::Tensor RouterLogits(const LinearInput& x, const Weight& weight, const Weight* bias) {
  return RouterLogitsFunction::apply(x.value, x, &weight, bias);
}

Routing ChooseExperts(const at::Tensor& logits, const RouterRule& rule, const at::Tensor& bias) {
  TRIREME_CHECK(logits.size(1) == rule.experts && rule.correction_bias == bias.defined());
  const at::Tensor dense = logits.contiguous();
  return kRouter.Choose({dense, rule}).forward(dense, rule, bias);
}

namespace {

std::vector<CaseReport> ReportRouter(const at::Tensor& like) {
  if (like.scalar_type() != at::kFloat) return {};
  const RouterRule usual{.experts = 128, .top_k = 8}, large{.experts = 8192, .top_k = 8};
  return {kRouter.Report("[any, 128 experts]", {like, usual}), kRouter.Report("[any, 8192 experts]", {like, large})};
}

// 8 of 128 experts, or of as many as there are columns.
std::vector<BenchCase> BenchRouter(const BenchSize& s) {
  if (s.type != at::kFloat) return {};
  const int64_t experts = std::min<int64_t>(s.columns, 128);
  const RouterRule rule{.experts = experts, .top_k = std::min<int64_t>(experts, 8), .normalise = true};
  const at::Tensor logits = BenchLeaf({s.rows, experts}, at::kFloat);
  const double bytes = static_cast<double>(logits.nbytes());
  return {{.forward_bytes = 2 * bytes,
           .backward_bytes = 2 * bytes,
           .input = logits,
           .run = [=] { return BenchCase::Tensors{ChooseExperts(logits, rule).weights}; },
           .shape = {s.rows, experts}}};
}

}  // namespace

Operator operators::router() {
  return {.name = kRouter.op(),
          .summary = "scores of the experts, the top k and their weights",
          .implementations = kRouter.names(),
          .report = ReportRouter,
          .bench = BenchRouter};
}

}  // namespace trireme
