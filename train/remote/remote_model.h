// RemoteModel: the adapters that a client trains, with their gradients and AdamW's moments: this rank's part of them,
// in host memory. The session has a copy of the adapters while the model takes part in a pass.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "train/remote/adapter_shards.h"
#include "train/remote/train_work.h"

namespace trireme {

class RemoteModel {
 public:
  // New adapters, in a slot of the session's. `layout` outlives it.
  RemoteModel(const AdapterShards& layout, const TrainedAdapters& adapters, int64_t slot);

  const TrainedAdapters& adapters() const { return adapters_; }
  int64_t slot() const { return slot_; }
  // What the session's slot is to hold.
  at::Tensor SessionValues() const { return weights_ * factors_; }
  // Adds gradients as the session has them, by bucket.
  void AddGradients(const std::vector<at::Tensor>& shares);
  // Whether those that AddGradients would add are finite on this rank.
  bool Finite(const std::vector<at::Tensor>& shares) const;
  // AdamW as torch does it, with what was added since the last step; the norm before clipping. Collective. Throws an
  // input error if there are no gradients.
  double Step(const AdamNumbers& adam);
  int64_t step() const { return step_; }

  // A PEFT directory, on rank 0; with `optimizer` the moments beside it. Collective.
  void Save(const std::filesystem::path& directory, bool optimizer) const;
  struct Loaded {
    at::Tensor weights = {}, first = {}, second = {};
    int64_t step = 0;
  };
  // What a saved model has; without `optimizer` moments are to start anew. Changes nothing.
  Loaded Read(const std::filesystem::path& directory, bool optimizer) const;
  // Goes on from there. Gradients are dropped.
  void Take(Loaded loaded);

  // Out of memory, into a file of this rank, and back, bit for bit. In between nothing else may be called.
  void Park(const std::filesystem::path& file);
  void Unpark(const std::filesystem::path& file);

 private:
  std::vector<std::pair<std::string, at::Tensor*>> Numbers();  // all that differs from what it was made with
  at::Tensor Taken(const std::vector<at::Tensor>& shares) const;
  double Norm() const;

  const AdapterShards& layout_;
  const TrainedAdapters adapters_;
  const int64_t slot_;
  at::Tensor factors_;
  at::Tensor weights_;
  at::Tensor gradients_;       // undefined: none
  at::Tensor first_, second_;  // moments; undefined before the first step
  int64_t step_ = 0;
  bool parked_ = false;
};

// The adapters that a directory has, as Save wrote it.
TrainedAdapters AdaptersIn(const std::filesystem::path& directory, const AdapterShards& layout);

}  // namespace trireme
