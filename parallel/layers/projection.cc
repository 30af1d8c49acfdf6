#include "parallel/layers/projection.h"

#include <ATen/core/Tensor.h>

#include "ops/linear/infer_linear.h"

namespace trireme {
namespace {

// The low-rank pairs of this rank's matrix, if there are any.
std::optional<LowRankWeights> FindPairs(const Projection::Place& place, const Weights::Entry& matrix,
                                        const std::string& role, const std::vector<std::string>& parts) {
  const std::string stem = place.layer.name + "." + role;
  LowRankWeights pairs{.a = place.weights.FindOrNull(stem + ".lora_a"), .blocks = {}};
  if (pairs.a == nullptr) return std::nullopt;
  const std::vector<Dim>& dims = matrix.placement.declaration().dims;
  const std::vector<Block>& blocks = dims[dims.size() - 2].blocks;
  int64_t first_rank = 0, first_output = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t outputs = (blocks[i].size + blocks[i].padding) / blocks[i].parts;
    const auto pair = place.layer.low_rank.find(parts[i]);
    // Of parts that are one module in the files the first has the pair of all.
    const Weight* b = place.weights.FindOrNull(stem + ".lora_b." + std::to_string(i));
    if (pair != place.layer.low_rank.end() && b != nullptr) {
      pairs.blocks.push_back({.b = b,
                              .scale = pair->second.scale,
                              .first_rank = first_rank,
                              .first_output = first_output});
      first_rank += pair->second.rank;
    }
    first_output += outputs;
  }
  return pairs;
}

}  // namespace

Projection::Projection(const Place& place, const std::string& role, const std::vector<std::string>& parts)
    : dropout_(place.dropout) {
  const Weights::Entry* matrix = place.weights.FindEntry(place.layer.name + "." + role + ".weight");
  if (matrix == nullptr) return;
  weight_ = &matrix->weight;
  pairs_ = FindPairs(place, *matrix, role, parts);
  const bool split_inputs = !matrix->placement.declaration().dims.back().axis.empty();
  if (split_inputs) first_input_ = place.tensor_rank * matrix->placement.LocalShape().back();
}

at::Tensor Projection::Forward(const LinearInput& x, PassContext& pass, const Weight* bias) const {
  const bool generates = pass.options.cache != nullptr;
  if (!pairs_ || !pass.options.adapters) {
    return generates ? InferLinear(x.value, *weight_, bias) : Linear(x, *weight_, bias);
  }
  const LowRankInput input{.x = x, .dropout = DropoutOf(pass, pass.input.identities)};
  if (generates) return AddLowRank(InferLinear(x.value, *weight_, bias), input, *pairs_);
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
