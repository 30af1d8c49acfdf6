#include "ops/heads.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/base/error.h"
#include "ops/choose.h"
#include "ops/cpu/heads.h"
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

struct SplitHeadsFunction : torch::autograd::Function<SplitHeadsFunction> {
  static variable_list forward(AutogradContext* context, const at::Tensor& qkv, const at::Tensor& cosine,
                               const at::Tensor& sine, const Recipe& recipe) {
    const HeadShape& s = recipe.shape;
    const auto options = qkv.options();
    const at::Tensor query = at::empty({s.rows, s.kv_heads, s.length, s.group(), s.head_dim}, options);
    const at::Tensor key = at::empty({s.rows, s.kv_heads, s.length, s.head_dim}, options);
    const at::Tensor value = at::empty_like(key);
    const at::Tensor scales = at::empty({s.tokens(), s.heads + s.kv_heads}, options.dtype(at::kFloat));
    ByType(qkv, [&](auto type) {
      using T = decltype(type);
      at::parallel_for(0, s.tokens(), GrainOfRows(s.width()), [&](int64_t begin, int64_t end) {
        cpu::SplitHeads(Data<T>(qkv), recipe.Layout(cosine), recipe.Norms<T>(),
                        {Data<float>(cosine), Data<float>(sine)}, {begin, end},
                        {Data<T>(query), Data<T>(key), Data<T>(value)}, Data<float>(scales));
      });
    });
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
    ByType(saved[0], [&](auto type) {
      using T = decltype(type);
      sums = SumOverRows(recipe.shape.tokens(), 2 * dim, [&](cpu::Rows rows, float* sum) {
        cpu::SplitHeadsBackward(Data<T>(saved[0]), {Data<T>(query), Data<T>(key), Data<T>(value)},
                                recipe.Layout(saved[1]), recipe.Norms<T>(),
                                {Data<float>(saved[1]), Data<float>(saved[2])}, rows, Data<float>(saved[3]),
                                Data<T>(result), {sum, sum + dim});
      });
    });
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
  if (!FastOnCpu(qkv) || shape.head_dim > cpu::kLargestHead || !readable(query_norm) || !readable(key_norm)) {
    return Reference(qkv, shape, query_norm, key_norm, table);
  }
  const variable_list heads = SplitHeadsFunction::apply(qkv.contiguous(), table.cosine, table.sine,
                                                        Recipe{shape, query_norm, key_norm});
  return {heads[0], heads[1], heads[2]};
}

}  // namespace trireme
