// RemoteModel: the pairs that a client trains, with their gradients and AdamW's moments: this rank's shares of them, in host
// memory. One model at a time is in the session; the others wait here.
#pragma once

#include <filesystem>
#include <string>

#include "train/remote/pair_shares.h"
#include "train/remote/train_work.h"

namespace trireme {

class RemoteModel {
 public:
  // New pairs. `layout` outlives it.
  RemoteModel(const PairShares& layout, const TrainedPairs& pairs);

  const TrainedPairs& pairs() const { return pairs_; }
  // What the session's buckets are to hold.
  Shares SessionValues() const;
  // Adds gradients as the session has them.
  void AddGradients(const Shares& gradients);
  // AdamW as torch does it, with what was added since the last step; the norm before clipping. Collective. Throws an input
  // error if there are no gradients.
  double Step(const AdamNumbers& adam);
  int64_t step() const { return step_; }

  // A PEFT directory, on rank 0; with `optimizer` the moments beside it. Collective.
  void Save(const std::filesystem::path& directory, bool optimizer) const;
  // Gradients are dropped; without `optimizer` the moments start anew.
  void Load(const std::filesystem::path& directory, bool optimizer);

 private:
  double Norm() const;

  const PairShares& layout_;
  const TrainedPairs pairs_;
  const Shares factors_;
  Shares weights_;
  Shares gradients_;            // empty: none
  Shares first_, second_;       // moments; empty before the first step
  int64_t step_ = 0;
};

// The pairs that an adapter directory has, as Save wrote it.
TrainedPairs PairsIn(const std::filesystem::path& directory, const PairShares& layout);

}  // namespace trireme
