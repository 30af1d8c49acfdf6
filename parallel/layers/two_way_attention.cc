#include "parallel/layers/two_way_attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "ops/attention/packed_attention.h"
#include "ops/attention/two_way_blocks.h"

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
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const c10::intrusive_ptr<SavedTiles>& saved) {
    const Heads heads{query.contiguous(), key.contiguous(), value.contiguous()};
    const PartialAttention partial = AttendPacked(heads, ScaleOf(query), saved->tiles);
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
        gradients[0].view({1, output.size(2), output.size(1), output.size(3), output.size(4)}).transpose(1, 2);
    const Heads sums = AttendPackedBackward(heads, ScaleOf(heads.query), static_cast<SavedTiles*>(holder.get())->tiles,
                                            AttendedQueries(kept[4], gradient, output));
    const at::ScalarType type = heads.query.scalar_type();
    return {sums.query.to(type), sums.key.to(type), sums.value.to(type), at::Tensor()};
  }
};

// The same on a CPU, without the passes that merging tiles would need.
struct TwoWayBlocksFunction : torch::autograd::Function<TwoWayBlocksFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const c10::intrusive_ptr<SavedTiles>& saved) {
    const Heads heads{query.contiguous(), key.contiguous(), value.contiguous()};
    const AttentionResult result = TwoWayBlocks(heads, saved->tiles.front());
    context->save_for_backward({heads.query, heads.key, heads.value, result.output, result.log_sum_exp});
    context->saved_data["saved"] = c10::IValue::make_capsule(saved);
    return result.output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list kept = context->get_saved_variables();
    const auto holder = context->saved_data["saved"].toCapsule();
    const Heads found =
        TwoWayBlocksBackward({kept[0], kept[1], kept[2]}, static_cast<SavedTiles*>(holder.get())->tiles.front(),
                             {kept[3], kept[4]}, gradients[0].contiguous());
    return {found.query, found.key, found.value, at::Tensor()};
  }
};

}  // namespace

at::Tensor TwoWayAttention(const Heads& heads, const RowTiles& tiles) {
  if (WhyNoTwoWayBlocks(heads, tiles).empty()) {
    return TwoWayBlocksFunction::apply(heads.query, heads.key, heads.value, c10::make_intrusive<SavedTiles>(tiles));
  }
  return TwoWayFunction::apply(heads.query, heads.key, heads.value, c10::make_intrusive<SavedTiles>(tiles));
}

}  // namespace trireme
