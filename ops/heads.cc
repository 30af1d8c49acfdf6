#include "ops/heads.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/base/error.h"
#include "ops/ascendc/heads.h"
#include "ops/choose.h"
#include "ops/cpu/heads.h"
#include "ops/kernel_place.h"
#include "ops/partial_sums.h"
#include "ops/rms_norm.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// query | key | value by group, as attention reads them.
Heads Reference(const at::Tensor& qkv, const HeadShape& s, const Weight* query_norm, const Weight* key_norm,
                const RotaryTable& table) {
  const at::Tensor heads = qkv.view({s.tokens(), s.heads + 2 * s.kv_heads, s.head_dim});
  const auto turned = [&](int64_t begin, int64_t count, const Weight* norm) {
    const at::Tensor part = heads.narrow(1, begin, count);
    return Rotate(norm == nullptr ? part : RmsNorm(part, *norm, s.norm_eps), table);
  };
  const auto rows = [&](const at::Tensor& x) {
    return x.reshape({s.rows, s.length, s.kv_heads, -1, s.head_dim}).transpose(1, 2).contiguous();
  };
  return {rows(turned(0, s.heads, query_norm)), rows(turned(s.heads, s.kv_heads, key_norm)).squeeze(3),
          rows(heads.narrow(1, s.heads + s.kv_heads, s.kv_heads)).squeeze(3)};
}

struct Recipe {
  HeadShape shape;
  const Weight *query_norm, *key_norm;

  cpu::HeadLayout Layout(const at::Tensor& cosine) const {
    return {.length = shape.length,
            .heads = shape.heads,
            .kv_heads = shape.kv_heads,
            .dim = shape.head_dim,
            .half = cosine.size(1),
            .eps = static_cast<float>(shape.norm_eps)};
  }
  bool kernel = false;  // by the AscendC kernel, else by the loops

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

struct KeptRecipe : torch::CustomClassHolder {
  explicit KeptRecipe(const Recipe& recipe) : recipe(recipe) {}
  Recipe recipe;
};

void AddTo(const Weight* weight, const at::Tensor& sum) {
  if (weight == nullptr || !weight->trained()) return;
  at::Tensor gradient = weight->gradient_sum();
  gradient.add_(sum);
}

void Loops(const at::Tensor& qkv, const at::Tensor& cosine, const at::Tensor& sine, const Recipe& recipe,
           const Heads& out, const at::Tensor& scales) {
  const HeadShape& s = recipe.shape;
  ByType(qkv, [&](auto type) {
    using T = decltype(type);
    at::parallel_for(0, s.tokens(), GrainOfRows(s.width()), [&](int64_t begin, int64_t end) {
      cpu::SplitHeads(Data<T>(qkv), recipe.Layout(cosine), recipe.Norms<T>(),
                      {Data<float>(cosine), Data<float>(sine)}, {begin, end},
                      {Data<T>(out.query), Data<T>(out.key), Data<T>(out.value)}, Data<float>(scales));
    });
  });
}

// The norms' sums, [query | key, head_dim].
at::Tensor KernelBackward(const variable_list& saved, const Heads& gradients, const Recipe& recipe,
                          const at::Tensor& result) {
  const ascendc::HeadShape shape = recipe.KernelShape(saved[1]);
  const ascendc::KernelPlace place = PlaceOf(saved[0]);
  const at::Tensor sums =
      at::empty({ascendc::SplitHeadsBlocks(place, shape), 2 * recipe.shape.head_dim}, saved[3].options());
  ascendc::SplitHeadsBackward(place, ElementOf(saved[0]), shape,
                              recipe.KernelArgs(saved[0], saved[1], saved[2], saved[3], gradients),
                              result.data_ptr(), Data<float>(sums));
  return recipe.shape.tokens() == 0 ? at::zeros_like(sums[0]) : sums.sum(0);
}

struct SplitHeadsFunction : torch::autograd::Function<SplitHeadsFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& qkv, const at::Tensor& cosine,
                               const at::Tensor& sine, const Recipe& recipe) {
    const HeadShape& s = recipe.shape;
    const auto options = qkv.options();
    const at::Tensor query = at::empty({s.rows, s.kv_heads, s.length, s.group(), s.head_dim}, options);
    const at::Tensor key = at::empty({s.rows, s.kv_heads, s.length, s.head_dim}, options);
    const at::Tensor value = at::empty_like(key);
    const at::Tensor scales = at::empty({s.tokens(), s.heads + s.kv_heads}, options.dtype(at::kFloat));
    if (recipe.kernel) {
      ascendc::SplitHeads(PlaceOf(qkv), ElementOf(qkv), recipe.KernelShape(cosine),
                          recipe.KernelArgs(qkv, cosine, sine, scales, {query, key, value}));
    } else {
      Loops(qkv, cosine, sine, recipe, {query, key, value}, scales);
    }
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
    at::Tensor sums;  // [query | key, head_dim]
    if (recipe.kernel) {
      sums = KernelBackward(saved, {query, key, value}, recipe, result);
    } else {
      ByType(saved[0], [&](auto type) {
        using T = decltype(type);
        sums = SumOverRows(recipe.shape.tokens(), 2 * dim, [&](cpu::Rows rows, float* sum) {
          cpu::SplitHeadsBackward(Data<T>(saved[0]), {Data<T>(query), Data<T>(key), Data<T>(value)},
                                  recipe.Layout(saved[1]), recipe.Norms<T>(),
                                  {Data<float>(saved[1]), Data<float>(saved[2])}, rows, Data<float>(saved[3]),
                                  Data<T>(result), {sum, sum + dim});
        });
      });
    }
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
  const auto readable = [&](const Weight* norm) { return norm == nullptr || SameKind(qkv, norm->value); };
  if (!readable(query_norm) || !readable(key_norm)) return Reference(qkv, shape, query_norm, key_norm, table);
  Recipe recipe{shape, query_norm, key_norm};
  const char* no_loops = cpu::WhyNotHeads(shape.head_dim, table.cosine.size(1));
  const char* no_kernel = ascendc::WhyNotHeads(recipe.KernelShape(table.cosine));
  const Against against{.loops = no_loops == nullptr ? "" : no_loops,
                        .kernel = no_kernel == nullptr ? "" : no_kernel};
  const Version version = Choose("heads", qkv, against).version;
  if (version == Version::kReference) return Reference(qkv, shape, query_norm, key_norm, table);
  recipe.kernel = version == Version::kKernel;
  const variable_list heads = SplitHeadsFunction::apply(qkv.contiguous(), table.cosine, table.sine, recipe);
  return {heads[0], heads[1], heads[2]};
}

}  // namespace trireme
