#include "parallel/layers/patches.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "ops/linear/linear.h"
#include "ops/linear/row_bias.h"
#include "ops/weight_gradients.h"
#include "parallel/layers/tiles.h"
#include "parallel/layers/tower_tables.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const Weight* SavedWeight(AutogradContext* context, const char* name) {
  return reinterpret_cast<const Weight*>(context->saved_data[name].toInt());
}

// Files have the matrix in the shape of a convolution.
at::Tensor AsMatrix(const at::Tensor& kernel) { return kernel.view({kernel.size(0), -1}); }

// Without `anchor`, which requires a gradient, autograd would not call backward here.
struct PatchFunction : torch::autograd::Function<PatchFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*anchor*/, const at::Tensor& pixels,
                            const Weight* weight, const Weight* bias) {
    context->save_for_backward({pixels});
    context->saved_data["weight"] = reinterpret_cast<int64_t>(weight);
    context->saved_data["bias"] = reinterpret_cast<int64_t>(bias);
    const at::Tensor matrix = AsMatrix(weight->value);
    return bias == nullptr ? at::mm(pixels, matrix.t()) : ProductWithBias(pixels, matrix, bias->value);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor pixels = context->get_saved_variables()[0];
    const at::Tensor gradient = gradients[0].contiguous();
    const Weight *weight = SavedWeight(context, "weight"), *bias = SavedWeight(context, "bias");
    WeightGradients::Add([weight, bias, gradient, pixels] {
      AddWeightGradient(*weight, gradient, pixels);
      if (bias == nullptr || !bias->trained()) return;
      at::Tensor sum = bias->gradient_sum();
      AddSumOfRows(gradient, sum);
    });
    return {at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// x plus each patch's mean of four rows of the table.
struct AddPositionsFunction : torch::autograd::Function<AddPositionsFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& corners,
                            const at::Tensor& shares, const Weight* table) {
    context->save_for_backward({corners, shares});
    context->saved_data["table"] = reinterpret_cast<int64_t>(table);
    const at::Tensor rows = table->value.index_select(0, corners).to(at::kFloat) * shares;  // [4 · patches, hidden]
    return x + rows.view({x.size(0), 4, x.size(1)}).sum(1).to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Weight* table = SavedWeight(context, "table");
    if (table->trained()) {
      const at::Tensor gradient = gradients[0].to(at::kFloat).repeat_interleave(4, 0) * saved[1];
      table->gradient_sum().index_add_(0, saved[0], gradient);
    }
    return {gradients[0], at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor PatchesToRun(const ImageFacts& images, const std::vector<size_t>& run) {
  if (run.size() == images.grids.size()) return images.patches;
  std::vector<at::Tensor> parts;
  int64_t begin = 0;
  for (size_t i = 0; i < images.grids.size(); ++i) {
    const int64_t patches = images.grids[i].patches();
    if (std::ranges::binary_search(run, i)) parts.push_back(images.patches.narrow(0, begin, patches));
    begin += patches;
  }
  return at::cat(parts);
}

}  // namespace

PatchLayer::PatchLayer(const Layer& layer, const Weights& weights, const LayerOptions& options)
    : spec_(std::get<PatchSpec>(layer.spec)),
      kept_(options.kept_features),
      weight_(weights.Find(layer.name + ".patch.weight")),
      bias_(weights.FindOrNull(layer.name + ".patch.bias")),
      class_token_(weights.FindOrNull(layer.name + ".class.weight")),
      positions_(weights.FindOrNull(layer.name + ".positions.weight")) {}

at::Tensor PatchLayer::Forward(const at::Tensor& anchor, PassContext& pass) const {
  const at::Tensor& given = pass.input.images.patches;
  if (!given.defined()) return anchor.reshape({0, spec_.tower.hidden});
  const TowerTables& tables = TowerTablesOf(pass, spec_.tower, kept_);
  if (tables.run.empty()) return anchor.reshape({0, spec_.tower.hidden});
  const at::Tensor run = PatchesToRun(pass.input.images, tables.run);
  const at::Tensor ordered = spec_.tower.window > 0 ? run.index_select(0, tables.order) : run;
  const at::Tensor pixels = ordered.to(weight_.value.scalar_type());
  const at::Tensor x = PatchFunction::apply(anchor, pixels, &weight_, bias_);
  if (class_token_ != nullptr) return WithClassTokens(x, tables.tile_places, *class_token_, *positions_);
  return positions_ == nullptr ? x : AddPositionsFunction::apply(x, tables.corners, tables.shares, positions_);
}

}  // namespace trireme
