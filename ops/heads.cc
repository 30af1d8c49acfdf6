#include "ops/heads.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/base/error.h"
#include "ops/ascendc/heads.h"
#include "ops/cpu/heads.h"
#include "ops/element_types.h"
#include "ops/kernel_place.h"
#include "ops/operator.h"
#include "ops/partial_sums.h"
#include "ops/rms_norm.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Recipe {
  HeadShape shape;
  const Weight *query_norm, *key_norm;
  int64_t implementation = 0;  // of kQkvNormRope

  cpu::HeadLayout Layout(const at::Tensor& cosine) const {
    return {.length = shape.length,
            .heads = shape.heads,
            .kv_heads = shape.kv_heads,
            .dim = shape.head_dim,
            .half = cosine.size(1),
            .eps = static_cast<float>(shape.norm_eps)};
  }
  ascendc::HeadShape KernelShape(const at::Tensor& cosine) const {
    return {.tokens = static_cast<uint64_t>(shape.tokens()),
            .length = static_cast<uint64_t>(shape.length),
            .heads = static_cast<uint64_t>(shape.heads),
            .kv_heads = static_cast<uint64_t>(shape.kv_heads),
            .dim = static_cast<uint64_t>(shape.head_dim),
            .half = static_cast<uint64_t>(cosine.size(1)),
            .eps = static_cast<float>(shape.norm_eps)};
  }
  ascendc::HeadArgs KernelArgs(const at::Tensor& qkv, const at::Tensor& cosine, const at::Tensor& sine,
                               const at::Tensor& scales, const Heads& heads) const {
    return {.qkv = qkv.data_ptr(),
            .query_norm = query_norm == nullptr ? nullptr : query_norm->value.data_ptr(),
            .key_norm = key_norm == nullptr ? nullptr : key_norm->value.data_ptr(),
            .cosine = Data<float>(cosine),
            .sine = Data<float>(sine),
            .query = heads.query.data_ptr(),
            .key = heads.key.data_ptr(),
            .value = heads.value.data_ptr(),
            .scales = Data<float>(scales)};
  }
  template <typename T>
  cpu::HeadNorms<T> Norms() const {
    return {query_norm == nullptr ? nullptr : Data<T>(query_norm->value),
            key_norm == nullptr ? nullptr : Data<T>(key_norm->value)};
  }
};

// query | key | value by group, as attention reads them.
Heads Reference(const at::Tensor& qkv, const RotaryTable& table, const Recipe& recipe) {
  const HeadShape& s = recipe.shape;
  const at::Tensor heads = qkv.view({s.tokens(), s.heads + 2 * s.kv_heads, s.head_dim});
  const auto turned = [&](int64_t begin, int64_t count, const Weight* norm) {
    const at::Tensor part = heads.narrow(1, begin, count);
    return Rotate(norm == nullptr ? part : RmsNorm(part, *norm, s.norm_eps), table);
  };
  const auto rows = [&](const at::Tensor& x) {
    return x.reshape({s.rows, s.length, s.kv_heads, -1, s.head_dim}).transpose(1, 2).contiguous();
  };
  return {rows(turned(0, s.heads, recipe.query_norm)),
          rows(turned(s.heads, s.kv_heads, recipe.key_norm)).squeeze(3),
          rows(heads.narrow(1, s.heads + s.kv_heads, s.kv_heads)).squeeze(3)};
}

struct KeptRecipe : torch::CustomClassHolder {
  explicit KeptRecipe(const Recipe& recipe) : recipe(recipe) {}
  Recipe recipe;
};

void AddTo(const Weight* weight, const at::Tensor& sum) {
  if (weight == nullptr || !weight->trained()) return;
  at::Tensor gradient = weight->gradient_sum();
  gradient.add_(sum);
}

// What the backward pass needs of the forward one, in the order in which autograd keeps it.
struct Saved {
  at::Tensor qkv, cosine, sine;
  at::Tensor scales;  // of the norms, [tokens, heads + kv_heads] fp32
};

void FastForward(const Saved& in, const Recipe& recipe, const Heads& out) {
  const HeadShape& s = recipe.shape;
  ByType(in.qkv, [&](auto type) {
    using T = decltype(type);
    at::parallel_for(0, s.tokens(), GrainOfRows(s.width()), [&](int64_t begin, int64_t end) {
      cpu::SplitHeads(Data<T>(in.qkv), recipe.Layout(in.cosine), recipe.Norms<T>(),
                      {Data<float>(in.cosine), Data<float>(in.sine)}, {begin, end},
                      {Data<T>(out.query), Data<T>(out.key), Data<T>(out.value)}, Data<float>(in.scales));
    });
  });
}

void KernelForward(const Saved& in, const Recipe& recipe, const Heads& out) {
  ascendc::SplitHeads(PlaceOf(in.qkv), ElementOf(in.qkv), recipe.KernelShape(in.cosine),
                      recipe.KernelArgs(in.qkv, in.cosine, in.sine, in.scales, out));
}

// Each gives the norms' sums, [query | key, head_dim].
at::Tensor FastBackward(const Saved& in, const Heads& gradients, const Recipe& recipe,
                        const at::Tensor& result) {
  const int64_t dim = recipe.shape.head_dim;
  at::Tensor sums;
  ByType(in.qkv, [&](auto type) {
    using T = decltype(type);
    sums = SumOverRows(recipe.shape.tokens(), 2 * dim, [&](cpu::Rows rows, float* sum) {
      cpu::SplitHeadsBackward(
          Data<T>(in.qkv), {Data<T>(gradients.query), Data<T>(gradients.key), Data<T>(gradients.value)},
          recipe.Layout(in.cosine), recipe.Norms<T>(), {Data<float>(in.cosine), Data<float>(in.sine)}, rows,
          Data<float>(in.scales), Data<T>(result), {sum, sum + dim});
    });
  });
  return sums;
}

at::Tensor KernelBackward(const Saved& in, const Heads& gradients, const Recipe& recipe,
                          const at::Tensor& result) {
  const ascendc::HeadShape shape = recipe.KernelShape(in.cosine);
  const ascendc::KernelPlace place = PlaceOf(in.qkv);
  const at::Tensor sums =
      at::empty({ascendc::SplitHeadsBlocks(place, shape), 2 * recipe.shape.head_dim}, in.scales.options());
  ascendc::SplitHeadsBackward(place, ElementOf(in.qkv), shape,
                              recipe.KernelArgs(in.qkv, in.cosine, in.sine, in.scales, gradients),
                              result.data_ptr(), Data<float>(sums));
  return recipe.shape.tokens() == 0 ? at::zeros_like(sums[0]) : sums.sum(0);
}

struct HeadsCase {
  const at::Tensor& qkv;
  const Recipe& recipe;
  const at::Tensor& cosine;

  std::string WhyNotNorms() const {
    const auto why = [&](const Weight* norm) { return norm == nullptr ? "" : WhyNotAlike(qkv, norm->value); };
    return Either(why(recipe.query_norm), why(recipe.key_norm));
  }
};

std::string Text(const char* why) { return why == nullptr ? "" : why; }

std::string WhyNotCpu(const HeadsCase& c) {
  const std::string shape = Text(cpu::WhyNotHeads(c.recipe.shape.head_dim, c.cosine.size(1)));
  return Either(WhyNoLoops(c.qkv), Either(c.WhyNotNorms(), shape));
}

std::string WhyNotKernel(const HeadsCase& c) {
  const std::string shape = Text(ascendc::WhyNotHeads(c.recipe.KernelShape(c.cosine)));
  return Either(WhyNoKernel(c.qkv), Either(c.WhyNotNorms(), shape));
}

// The reference, differentiated by autograd's own graph, has neither function: SplitHeads calls it.
const ImplementationList<HeadsCase, decltype(&FastForward), decltype(&FastBackward)> kQkvNormRope{
    "qkv_norm_rope",
    {{"cpu", WhyNotCpu, FastForward, FastBackward},
     {"ascendc", WhyNotKernel, KernelForward, KernelBackward},
     {"aten", nullptr, nullptr, nullptr}}};

struct SplitHeadsFunction : torch::autograd::Function<SplitHeadsFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& qkv, const at::Tensor& cosine,
                               const at::Tensor& sine, const Recipe& recipe) {
    const HeadShape& s = recipe.shape;
    const auto options = qkv.options();
    const at::Tensor query = at::empty({s.rows, s.kv_heads, s.length, s.group(), s.head_dim}, options);
    const at::Tensor key = at::empty({s.rows, s.kv_heads, s.length, s.head_dim}, options);
    const at::Tensor value = at::empty_like(key);
    const at::Tensor scales = at::empty({s.tokens(), s.heads + s.kv_heads}, options.dtype(at::kFloat));
    kQkvNormRope[recipe.implementation].forward({qkv, cosine, sine, scales}, recipe, {query, key, value});
    context->save_for_backward({qkv, cosine, sine, scales});
    context->saved_data["recipe"] = c10::IValue::make_capsule(c10::make_intrusive<KeptRecipe>(recipe));
    return {query, key, value};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto holder = context->saved_data["recipe"].toCapsule();
    const Recipe& recipe = static_cast<const KeptRecipe*>(holder.get())->recipe;
    const at::Tensor query = gradients[0].contiguous(), key = gradients[1].contiguous();
    const at::Tensor value = gradients[2].contiguous();
    const at::Tensor result = at::empty_like(saved[0]);
    const int64_t dim = recipe.shape.head_dim;
    const at::Tensor sums = kQkvNormRope[recipe.implementation].backward(
        {saved[0], saved[1], saved[2], saved[3]}, {query, key, value}, recipe, result);
    AddTo(recipe.query_norm, sums.narrow(0, 0, dim));
    AddTo(recipe.key_norm, sums.narrow(0, dim, dim));
    return {result, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

Heads SplitHeads(const at::Tensor& qkv, const HeadShape& shape, const Weight* query_norm,
                 const Weight* key_norm, const RotaryTable& table) {
  TRIREME_CHECK(qkv.size(0) == shape.tokens() && qkv.size(1) == shape.width());
  TRIREME_CHECK(shape.heads % shape.kv_heads == 0);
  Recipe recipe{shape, query_norm, key_norm};
  const auto& chosen = kQkvNormRope.Choose({qkv, recipe, table.cosine});
  if (chosen.forward == nullptr) return Reference(qkv, table, recipe);
  recipe.implementation = kQkvNormRope.IndexOf(chosen);
  const variable_list heads = SplitHeadsFunction::apply(qkv.contiguous(), table.cosine, table.sine, recipe);
  return {heads[0], heads[1], heads[2]};
}

namespace {

std::vector<CaseReport> ReportHeads(const at::Tensor& like) {
  std::vector<CaseReport> report;
  for (const int64_t dim : {128, 576, 2048}) {
    const Recipe recipe{
        {.rows = 1, .length = 1, .heads = 1, .kv_heads = 1, .head_dim = dim}, nullptr, nullptr};
    const at::Tensor cosine = at::empty({0, dim / 2}, like.options());
    report.push_back(kQkvNormRope.Report(Concat("[any, heads of ", dim, "]"), {like, recipe, cosine}));
  }
  return report;
}

// Heads of 128, four queries to a key, with norms.
std::vector<BenchCase> BenchHeads(const BenchSize& s) {
  constexpr int64_t kDim = 128;
  const int64_t groups = std::max<int64_t>(s.columns / kDim / 6, 1);
  const HeadShape shape{
      .rows = 1, .length = s.rows, .heads = 4 * groups, .kv_heads = groups, .head_dim = kDim};
  const at::Tensor qkv = BenchLeaf({s.rows, shape.width()}, s.type);
  const auto query_norm = BenchWeight({kDim}, s.type), key_norm = BenchWeight({kDim}, s.type);
  std::vector<double> frequencies(kDim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = 1.0 / static_cast<double>(i + 1);
  const RotaryTable table = MakeRotaryTable(at::arange(s.rows, at::kLong), frequencies);
  const double bytes = static_cast<double>(qkv.nbytes());
  return {{.forward_bytes = 2 * bytes, .backward_bytes = 3 * bytes, .input = qkv, .run = [=] {
             const Heads heads = SplitHeads(qkv, shape, query_norm.get(), key_norm.get(), table);
             return BenchCase::Tensors{heads.query, heads.key, heads.value};
           }}};
}

}  // namespace

Operator operators::qkv_norm_rope() {
  return {
      .name = kQkvNormRope.op(),
      .summary = "q|k|v to attention's layout, with the norms of queries and keys and the rotary embedding",
      .implementations = kQkvNormRope.names(),
      .report = ReportHeads,
      .bench = BenchHeads};
}

}  // namespace trireme
