#include "ops/qkv_norm_rope/qkv_norm_rope.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "ops/cuda/launch.h"
#include "ops/element_types.h"
#include "ops/kernel_place.h"
#include "ops/operator.h"
#include "ops/partial_sums.h"
#include "ops/qkv_norm_rope/ascendc.h"
#include "ops/qkv_norm_rope/cpu.h"
#include "ops/rms_norm/rms_norm.h"

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
  bool normalises() const { return query_norm != nullptr || key_norm != nullptr; }
  cuda::HeadsArgs CudaArgs(const at::Tensor& qkv, const at::Tensor& cosine, const at::Tensor& sine,
                           const at::Tensor& scales, const Heads& heads) const {
    const auto of = [](const at::Tensor& x) {
      return cuda::HeadStrides{x.stride(0), x.stride(1), x.stride(2), x.dim() == 5 ? x.stride(3) : 0};
    };
    return {.qkv = qkv.defined() ? qkv.data_ptr() : nullptr,
            .query_norm = query_norm == nullptr ? nullptr : query_norm->value.data_ptr(),
            .key_norm = key_norm == nullptr ? nullptr : key_norm->value.data_ptr(),
            .cosine = Data<float>(cosine),
            .sine = Data<float>(sine),
            .query = heads.query.data_ptr(),
            .key = heads.key.data_ptr(),
            .value = heads.value.data_ptr(),
            .query_strides = of(heads.query),
            .key_strides = of(heads.key),
            .value_strides = of(heads.value),
            .scales = normalises() ? Data<float>(scales) : nullptr,
            .tokens = shape.tokens(),
            .length = shape.length,
            .heads = shape.heads,
            .kv_heads = shape.kv_heads,
            .dim = shape.head_dim,
            .eps = static_cast<float>(shape.norm_eps),
            .qkv_gradient = nullptr,
            .norm_sums = nullptr,
            .blocks = 0};
  }
  template <typename T>
  cpu::HeadNorms<T> Norms() const {
    return {query_norm == nullptr ? nullptr : Data<T>(query_norm->value),
            key_norm == nullptr ? nullptr : Data<T>(key_norm->value)};
  }
};

// query | key | value by group, in attention's layout.
Heads ReferenceOfQkvNormRope(const at::Tensor& qkv, const RotaryTable& table, const Recipe& recipe) {
  const HeadShape& s = recipe.shape;
  const at::Tensor heads = qkv.view({s.tokens(), s.heads + 2 * s.kv_heads, s.head_dim});
  const auto turned = [&](int64_t begin, int64_t count, const Weight* norm) {
    const at::Tensor part = heads.narrow(1, begin, count);
    return Rotate(norm == nullptr ? part : RmsNorm(part, *norm, s.norm_eps), table);
  };
  const auto rows = [&](const at::Tensor& x) {
    return x.reshape({s.rows, s.length, s.kv_heads, -1, s.head_dim}).transpose(1, 2).contiguous();
  };
  return {rows(turned(0, s.heads, recipe.query_norm)), rows(turned(s.heads, s.kv_heads, recipe.key_norm)).squeeze(3),
          rows(heads.narrow(1, s.heads + s.kv_heads, s.kv_heads)).squeeze(3)};
}

struct SavedRecipe : torch::CustomClassHolder {
  explicit SavedRecipe(const Recipe& recipe) : recipe(recipe) {}
  Recipe recipe;
};

void AddTo(const Weight& weight, const at::Tensor& sum) {
  if (!weight.trained()) return;
  at::Tensor gradient = weight.gradient_sum();
  gradient.add_(sum);
}

// What the backward pass needs of the forward pass, in the order in which autograd saves it.
struct SavedProjection {
  at::Tensor qkv, cosine, sine;
  at::Tensor scales;  // of the norms, [tokens, heads + kv_heads] fp32
};

void FastForwardOfQkvNormRope(const SavedProjection& in, const Recipe& recipe, const Heads& out) {
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

void KernelForwardOfQkvNormRope(const SavedProjection& in, const Recipe& recipe, const Heads& out) {
  ascendc::SplitHeads(PlaceOf(in.qkv), ElementOf(in.qkv), recipe.KernelShape(in.cosine),
                      recipe.KernelArgs(in.qkv, in.cosine, in.sine, in.scales, out));
}

// Each returns the norms' gradient sums, [query | key, head_dim].
at::Tensor FastBackwardOfQkvNormRope(const SavedProjection& in, const Heads& gradients, const Recipe& recipe,
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

at::Tensor KernelBackwardOfQkvNormRope(const SavedProjection& in, const Heads& gradients, const Recipe& recipe,
                                       const at::Tensor& result) {
  const ascendc::HeadShape shape = recipe.KernelShape(in.cosine);
  const ascendc::KernelPlace place = PlaceOf(in.qkv);
  const at::Tensor sums =
      at::empty({ascendc::SplitHeadsBlocks(place, shape), 2 * recipe.shape.head_dim}, in.scales.options());
  ascendc::SplitHeadsBackward(place, ElementOf(in.qkv), shape,
                              recipe.KernelArgs(in.qkv, in.cosine, in.sine, in.scales, gradients), result.data_ptr(),
                              Data<float>(sums));
  return recipe.shape.tokens() == 0 ? at::zeros_like(sums[0]) : sums.sum(0);
}

void CudaForwardOfQkvNormRope(const SavedProjection& in, const Recipe& recipe, const Heads& out) {
  CheckLaunch(CudaKernels().split_heads(recipe.CudaArgs(in.qkv, in.cosine, in.sine, in.scales, out), IsBf16(in.qkv),
                                        CudaStream()),
              "qkv_norm_rope");
}

at::Tensor CudaBackwardOfQkvNormRope(const SavedProjection& in, const Heads& gradients, const Recipe& recipe,
                                     const at::Tensor& result) {
  constexpr int64_t kBlocks = 1056;  // eight to a multiprocessor of an H200: each sums the norms' gradients
  const int64_t tokens = recipe.shape.tokens();
  const int64_t blocks = std::max<int64_t>(recipe.normalises() ? std::min(tokens, kBlocks) : tokens, 1);
  const int64_t sums_of = recipe.normalises() ? blocks : 0;
  const at::Tensor sums = at::empty({sums_of, 2 * recipe.shape.head_dim}, result.options().dtype(at::kFloat));
  cuda::HeadsArgs args = recipe.CudaArgs(in.qkv, in.cosine, in.sine, in.scales, gradients);
  args.qkv_gradient = result.data_ptr();
  args.norm_sums = Data<float>(sums);
  args.blocks = static_cast<int>(blocks);
  CheckLaunch(CudaKernels().split_heads_backward(args, IsBf16(result), CudaStream()), "qkv_norm_rope");
  return recipe.normalises() ? sums.sum(0) : at::Tensor();
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

std::string WhyNotCpuOfQkvNormRope(const HeadsCase& c) {
  const std::string shape = Text(cpu::WhyNotHeads(c.recipe.shape.head_dim, c.cosine.size(1)));
  return Either(WhyNoLoops(c.qkv), Either(c.WhyNotNorms(), shape));
}

// A few threads of a warp take a head: a power of two, each with a pack of 16 bytes of both halves.
std::string WhyNotCudaOfQkvNormRope(const HeadsCase& c) {
  const int64_t dim = c.recipe.shape.head_dim, pack = 16 / c.qkv.element_size(), lanes = dim / 2 / pack;
  std::string why;
  if (c.cosine.size(1) * 2 != dim) why = Concat("only ", 2 * c.cosine.size(1), " of ", dim, " elements are turned");
  const bool fits = dim % (2 * pack) == 0 && lanes <= 32 && (lanes & (lanes - 1)) == 0;
  if (why.empty() && !fits) why = Concat("heads of ", dim, "; wanted ", 2 * pack, " times a power of two up to 32");
  return Either(WhyNoCudaKernel(c.qkv), Either(c.WhyNotNorms(), why));
}

std::string WhyNotKernelOfQkvNormRope(const HeadsCase& c) {
  const std::string shape = Text(ascendc::WhyNotHeads(c.recipe.KernelShape(c.cosine)));
  return Either(WhyNoKernel(c.qkv), Either(c.WhyNotNorms(), shape));
}

// The reference is differentiated by autograd and has neither function: SplitHeads calls it.
const ImplementationList<HeadsCase, decltype(&FastForwardOfQkvNormRope), decltype(&FastBackwardOfQkvNormRope)>
    kQkvNormRope{"qkv_norm_rope",
                 {{"cpu", WhyNotCpuOfQkvNormRope, FastForwardOfQkvNormRope, FastBackwardOfQkvNormRope},
                  {"cuda", WhyNotCudaOfQkvNormRope, CudaForwardOfQkvNormRope, CudaBackwardOfQkvNormRope},
                  {"ascendc", WhyNotKernelOfQkvNormRope, KernelForwardOfQkvNormRope, KernelBackwardOfQkvNormRope},
                  {"aten", nullptr, nullptr, nullptr}}};

// Where the norms' gradients do not want it, a GPU's backward pass needs no q|k|v.
bool SavesInput(const Recipe& recipe, const at::Tensor& qkv) { return recipe.normalises() || !qkv.is_cuda(); }

// A GPU's kernel takes any strides of whole packs.
at::Tensor ReadableHeads(const at::Tensor& gradient) {
  const int64_t pack = 16 / gradient.element_size();
  bool whole = gradient.is_cuda() && gradient.stride(-1) == 1 && gradient.storage_offset() % pack == 0;
  for (int64_t dim = 0; dim + 1 < gradient.dim(); ++dim) whole = whole && gradient.stride(dim) % pack == 0;
  return whole ? gradient : gradient.contiguous();
}

struct SplitHeadsFunction : torch::autograd::Function<SplitHeadsFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& qkv, const at::Tensor& cosine,
                               const at::Tensor& sine, const Recipe& recipe) {
    const HeadShape& s = recipe.shape;
    const auto options = qkv.options();
    const bool by_token = qkv.is_cuda();
    const auto memory = [&](int64_t group) {  // [rows, kv_heads, length, group, head_dim]
      const int64_t head = group * s.head_dim, token = s.kv_heads * head;
      const std::vector<int64_t> shape = {s.rows, s.kv_heads, s.length, group, s.head_dim};
      if (!by_token) return at::empty(shape, options);
      return at::empty_strided(shape, {s.length * token, head, token, s.head_dim, 1}, options);
    };
    const at::Tensor query = memory(s.group()), key = memory(1).squeeze(3), value = memory(1).squeeze(3);
    const at::Tensor scales = at::empty({s.tokens(), s.heads + s.kv_heads}, options.dtype(at::kFloat));
    kQkvNormRope[recipe.implementation].forward({qkv, cosine, sine, scales}, recipe, {query, key, value});
    context->save_for_backward({SavesInput(recipe, qkv) ? qkv : at::Tensor(), cosine, sine, scales});
    context->saved_data["recipe"] = c10::IValue::make_capsule(c10::make_intrusive<SavedRecipe>(recipe));
    return {query, key, value};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto holder = context->saved_data["recipe"].toCapsule();
    const Recipe& recipe = static_cast<const SavedRecipe*>(holder.get())->recipe;
    const at::Tensor query = ReadableHeads(gradients[0]), key = ReadableHeads(gradients[1]);
    const at::Tensor value = ReadableHeads(gradients[2]);
    const at::Tensor result = at::empty({recipe.shape.tokens(), recipe.shape.width()}, query.options());
    const int64_t dim = recipe.shape.head_dim;
    const at::Tensor sums = kQkvNormRope[recipe.implementation].backward({saved[0], saved[1], saved[2], saved[3]},
                                                                         {query, key, value}, recipe, result);
    if (recipe.query_norm != nullptr) AddTo(*recipe.query_norm, sums.narrow(0, 0, dim));
    if (recipe.key_norm != nullptr) AddTo(*recipe.key_norm, sums.narrow(0, dim, dim));
    return {result, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

Heads SplitHeads(const at::Tensor& qkv, const HeadShape& shape, const Weight* query_norm, const Weight* key_norm,
                 const RotaryTable& table) {
  TRIREME_CHECK(qkv.size(0) == shape.tokens() && qkv.size(1) == shape.width());
  TRIREME_CHECK(shape.heads % shape.kv_heads == 0);
  Recipe recipe{shape, query_norm, key_norm};
  const auto& chosen = kQkvNormRope.Choose({qkv, recipe, table.cosine});
  if (chosen.forward == nullptr) return ReferenceOfQkvNormRope(qkv, table, recipe);
  recipe.implementation = kQkvNormRope.IndexOf(chosen);
  const variable_list heads = SplitHeadsFunction::apply(qkv.contiguous(), table.cosine, table.sine, recipe);
  return {heads[0], heads[1], heads[2]};
}

namespace {

std::vector<CaseReport> ReportHeads(const at::Tensor& like) {
  std::vector<CaseReport> report;
  for (const int64_t dim : {128, 576, 2048}) {
    const Recipe recipe{{.rows = 1, .length = 1, .heads = 1, .kv_heads = 1, .head_dim = dim}, nullptr, nullptr};
    const at::Tensor cosine = at::empty({0, dim / 2}, like.options());
    report.push_back(kQkvNormRope.Report(Concat("[any, heads of ", dim, "]"), {like, recipe, cosine}));
  }
  return report;
}

// Heads of 128, four queries per key, with norms.
std::vector<BenchCase> BenchHeads(const BenchSize& s) {
  constexpr int64_t kDim = 128;
  const int64_t groups = std::max<int64_t>(s.columns / kDim / 6, 1);
  const HeadShape shape{.rows = 1, .length = s.rows, .heads = 4 * groups, .kv_heads = groups, .head_dim = kDim};
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
  return {.name = kQkvNormRope.op(),
          .summary = "q|k|v to attention's layout, with query and key norms and the rotary embedding",
          .implementations = kQkvNormRope.names(),
          .report = ReportHeads,
          .bench = BenchHeads};
}

}  // namespace trireme
