#include "parallel/layers/projection.h"

#include <ATen/core/Tensor.h>

#include "ops/linear/infer_linear.h"
#include "parallel/layers/bias.h"

namespace trireme {
Projection::Projection(const Place& place, const std::string& role, const std::vector<std::string>& parts)
    : role_{.layer = place.layer.name, .matrix = role, .parts = parts}, dropout_(place.dropout) {
  const Weights::Entry* matrix = place.weights.FindEntry(place.layer.name + "." + role + ".weight");
  if (matrix == nullptr) return;
  weight_ = &matrix->weight;
  pairs_ = FindPairs(place.layer, place.weights, role_);
  const bool split_inputs = !matrix->placement.declaration().dims.back().axis.empty();
  if (split_inputs) first_input_ = place.tensor_rank * matrix->placement.LocalShape().back();
  if (split_inputs) inputs_ = place.tensor;
  if (pairs_) magnitudes_ = FindMagnitudes(place.weights, role_);
}

at::Tensor Projection::Forward(const LinearInput& x, PassContext& pass, const Weight* bias) const {
  const bool generates = pass.options.cache != nullptr;
  if (const RowAdapters* rows = RowAdaptersOf(pass)) {
    return AddRowPairs(InferLinear(x.value, *weight_, bias), {.x = x}, rows->rows, rows->PairsOf(role_));
  }
  if (!pairs_ || !pass.options.adapters) {
    return generates ? InferLinear(x.value, *weight_, bias) : Linear(x, *weight_, bias);
  }
  const LowRankInput input{.x = x, .dropout = DropoutOf(pass, pass.input.identities), .slots = pass.Slots()};
  if (magnitudes_.empty()) return WithPairs(input, pass, bias);
  const at::Tensor lengths = RowLengths(*weight_, *pairs_, inputs_);
  return AddBias(ScaleToMagnitudes(WithPairs(input, pass, nullptr), magnitudes_, lengths), bias);
}

at::Tensor Projection::WithPairs(const LowRankInput& input, PassContext& pass, const Weight* bias) const {
  const LinearInput& x = input.x;
  if (pass.options.cache != nullptr) return AddLowRank(InferLinear(x.value, *weight_, bias), input, *pairs_);
  const bool trained = weight_->trained() || (bias != nullptr && bias->trained());
  if (trained) return AddLowRank(Linear(x, *weight_, bias), input, *pairs_);
  return LinearWithLowRank(input, *weight_, bias, *pairs_);
}

std::shared_ptr<const Dropout> Projection::DropoutOf(PassContext& pass, const at::Tensor& rows) const {
  if (!pairs_ || !pass.options.dropout || dropout_ == 0) return nullptr;
  return std::make_shared<const Dropout>(Dropout{.rate = dropout_,
                                                 .random = RandomStream(*pass.options.dropout, weight_->name),
                                                 .rows = rows,
                                                 .first_column = first_input_});
}

}  // namespace trireme
