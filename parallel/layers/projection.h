// Projection: a linear layer on this rank: its matrix, which may fuse several projections of one input, and
// their LoRA adapters if the run has an adapter, or those of the pass's rows. Collectives are the caller's: an adapter
// is split like its matrix, so that its output is a part of the same sum. Only the lengths that DoRA divides by are
// summed here, and where ranks split rows that are rounded to e4m3, their largest magnitudes are found over all of
// them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/low_rank/low_rank.h"
#include "parallel/layers/layer.h"
#include "parallel/layers/magnitudes.h"
#include "parallel/layers/row_adapters.h"

namespace trireme {

class Projection {
 public:
  // `role`: of the matrix in its layer ("attention.qkv"); `parts`: of the projections fused in it
  // ("attention.q", …), in order. tensor_rank: this rank's part of the inputs, if they are split. The layer's
  // weights outlive the projection.
  struct Place {
    const Layer& layer;
    const Weights& weights;
    double dropout = 0;
    int tensor_rank = 0;
    Communicator* tensor = nullptr;  // over which inputs or outputs are split, if they are
  };
  Projection(const Place& place, const std::string& role, const std::vector<std::string>& parts);
  Projection(const Place& place, const std::string& role) : Projection(place, role, {role}) {}

  bool there() const { return weight_ != nullptr; }  // whether the layer has such a matrix
  // x: [tokens, in]; with dropout, the batch's tokens in order.
  at::Tensor Forward(const LinearInput& x, PassContext& pass, const Weight* bias = nullptr) const;

  const Weight& weight() const { return *weight_; }
  const MatrixRole& role() const { return role_; }
  const std::optional<LowRankWeights>& adapters() const { return adapters_; }
  // The dropout of the adapters' inputs in this pass, whose tokens are `rows`; nullptr: none.
  std::shared_ptr<const Dropout> DropoutOf(PassContext& pass, const at::Tensor& rows) const;

 private:
  at::Tensor Plain(const LinearInput& x, PassContext& pass, const Weight* bias) const;
  at::Tensor WithAdapters(const LowRankInput& input, PassContext& pass, const Weight* bias) const;

  const MatrixRole role_;
  const Weight* weight_ = nullptr;
  std::optional<LowRankWeights> adapters_;
  std::vector<MagnitudeBlock> magnitudes_;  // of DoRA
  Communicator* inputs_ = nullptr;          // the ranks that split them; nullptr: they are whole
  SplitContraction split_;                  // of a matrix in e4m3
  double dropout_ = 0;
  int64_t first_input_ = 0;
};

}  // namespace trireme
