#include "parallel/layers/projection.h"

#include <ATen/core/Tensor.h>

#include "ops/fp8_linear/fp8_linear.h"
#include "ops/linear/infer_linear.h"
#include "parallel/layers/bias.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

SplitContraction::Largest LargestOver(const Dim& dim, Communicator* group) {
  if (dim.axis.empty() || group == nullptr || group->size() == 1) return {};
  return [group](const at::Tensor& of_rows) { AllReduce(of_rows, *group, ReduceOp::kMax); };
}

}  // namespace

Projection::Projection(const Place& place, const std::string& role, const std::vector<std::string>& parts)
    : role_{.layer = place.layer.name, .matrix = role, .parts = parts}, dropout_(place.dropout) {
  const Weights::Entry* matrix = place.weights.FindEntry(place.layer.name + "." + role + ".weight");
  if (matrix == nullptr) return;
  weight_ = &matrix->weight;
  adapters_ = FindAdapters(place.layer, place.weights, role_);
  const bool split_inputs = !matrix->placement.declaration().dims.back().axis.empty();
  if (split_inputs) first_input_ = place.tensor_rank * matrix->placement.LocalShape().back();
  if (split_inputs) inputs_ = place.tensor;
  if (adapters_) magnitudes_ = FindMagnitudes(place.weights, role_);
  if (!IsFp8(*weight_)) return;
  const std::vector<Dim>& dims = matrix->placement.declaration().dims;
  split_ = {.inputs = LargestOver(dims.back(), place.tensor), .outputs = LargestOver(dims.front(), place.tensor)};
}

at::Tensor Projection::Forward(const LinearInput& given, PassContext& pass, const Weight* bias) const {
  const LinearInput x(given.value, given.again, &split_);
  if (const RowAdapters* rows = RowAdaptersOf(pass)) {
    return AddRowAdapters(InferLinear(x.value, *weight_, bias, x.split), {.x = x}, rows->rows, rows->AdaptersOf(role_));
  }
  if (!adapters_ || !pass.options.adapters) return Plain(x, pass, bias);
  const LowRankInput input{.x = x, .dropout = DropoutOf(pass, pass.input.identities), .slots = pass.Slots()};
  if (magnitudes_.empty()) return WithAdapters(input, pass, bias);
  const at::Tensor lengths = RowLengths(*weight_, *adapters_, inputs_);
  return AddBias(ScaleToMagnitudes(WithAdapters(input, pass, nullptr), magnitudes_, lengths), bias);
}

at::Tensor Projection::Plain(const LinearInput& x, PassContext& pass, const Weight* bias) const {
  if (pass.options.cache != nullptr) return InferLinear(x.value, *weight_, bias, x.split);
  return Linear(x, *weight_, bias);
}

at::Tensor Projection::WithAdapters(const LowRankInput& input, PassContext& pass, const Weight* bias) const {
  const bool trained = weight_->trained() || (bias != nullptr && bias->trained());
  if (pass.options.cache != nullptr || trained) return AddLowRank(Plain(input.x, pass, bias), input, *adapters_);
  return LinearWithLowRank(input, *weight_, bias, *adapters_);
}

std::shared_ptr<const Dropout> Projection::DropoutOf(PassContext& pass, const at::Tensor& rows) const {
  if (!adapters_ || !pass.options.dropout || dropout_ == 0) return nullptr;
  return std::make_shared<const Dropout>(Dropout{.rate = dropout_,
                                                 .random = RandomStream(*pass.options.dropout, weight_->name),
                                                 .rows = rows,
                                                 .first_column = first_input_});
}

}  // namespace trireme
