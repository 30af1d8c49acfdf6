#include "parallel/layers/two_way_attention.h"

#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SavedTiles : torch::CustomClassHolder {
  explicit SavedTiles(const RowTiles& tiles) : tiles(tiles) {}
  const RowTiles tiles;
};

double ScaleOf(const at::Tensor& query) { return 1 / std::sqrt(static_cast<double>(query.size(-1))); }

struct TwoWayFunction : torch::autograd::Function<TwoWayFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const c10::intrusive_ptr<SavedTiles>& saved) {
    const Heads heads{query.contiguous(), key.contiguous(), value.contiguous()};
    PartialAttention partial = EmptyPartial(heads.query, heads.value.size(3));
    AttendTiles(heads, ScaleOf(query), saved->tiles, partial);
    const at::Tensor output = partial.output.to(query.scalar_type());  // [1, heads, length, 1, dim]
    context->save_for_backward({heads.query, heads.key, heads.value, output, partial.log_sum_exp});
    context->saved_data["saved"] = c10::IValue::make_capsule(saved);
    return output.transpose(1, 2).reshape({output.size(2), -1});
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list kept = context->get_saved_variables();
    const auto holder = context->saved_data["saved"].toCapsule();
    const Heads heads{kept[0], kept[1], kept[2]};
    const at::Tensor& output = kept[3];
    const at::Tensor gradient =
        gradients[0].view({1, output.size(2), output.size(1), output.size(3), output.size(4)}).transpose(1, 2).contiguous();
    const AttendedQueries queries(kept[4], gradient, output);
    Heads sums{at::zeros_like(heads.query, at::kFloat), at::zeros_like(heads.key, at::kFloat),
               at::zeros_like(heads.value, at::kFloat)};
    AttendTilesBackward(heads, ScaleOf(heads.query), static_cast<SavedTiles*>(holder.get())->tiles, queries, sums);
    const at::ScalarType type = heads.query.scalar_type();
    return {sums.query.to(type), sums.key.to(type), sums.value.to(type), at::Tensor()};
  }
};

}  // namespace

at::Tensor TwoWayAttention(const Heads& heads, const RowTiles& tiles) {
  return TwoWayFunction::apply(heads.query, heads.key, heads.value, c10::make_intrusive<SavedTiles>(tiles));
}

}  // namespace trireme
