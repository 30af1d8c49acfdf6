// ModelCopy: this rank's shard of a model's weights and optimizer states in host memory, as the pieces of a checkpoint
// that it writes. Taking it is all that a save stalls a run for. The files are RunSaver's business.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/store_writer.h"
#include "parallel/executor/model.h"
#include "parallel/sharding/optimizer.h"

namespace trireme {

class ModelCopy {
 public:
  // `optimizer`: nullptr for a model that is not trained. trained_only: untrained weights are stored elsewhere, as the
  // base of an adapter. Both outlive it.
  ModelCopy(Model& model, ShardedOptimizer* optimizer, bool trained_only)
      : model_(model), optimizer_(optimizer), trained_only_(trained_only) {}

  // Into the same memory every time. Collective where a gather of weights is in flight.
  void Take();
  const std::vector<PieceToWrite>& pieces() const { return pieces_; }

 private:
  void TakeShard(size_t index, Bucket& bucket, const std::string& state, const at::Tensor& shard);
  void TakeTensorState(size_t index, const TensorState& state);
  void Describe(Bucket& bucket, const std::string& state, const at::Tensor& host);
  bool IsTiedCopy(const Bucket& bucket) const;

  Model& model_;
  ShardedOptimizer* optimizer_;
  const bool trained_only_;
  std::vector<at::Tensor> host_;      // copies of shares
  std::vector<PieceToWrite> pieces_;  // parts of host_ that this rank writes
};

}  // namespace trireme
