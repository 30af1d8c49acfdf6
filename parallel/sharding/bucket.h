// Bucket: the memory of one layer's parameters: values, gradients and fp32 masters, one flat buffer each,
// split over the data-parallel ranks as the zero level says. Moves and reduces; when is the executor's
// business, and what becomes of a gradient the optimizer's.
//
//   zero 0: every rank has and updates everything; gradients are all-reduced
//   zero 1: a rank updates its share; gradients are reduce-scattered once a step, new values all-gathered
//   zero 2: a whole gradient lives only from a backward pass to its reduction, once for each micro batch
//   zero 3: whole values, too, live only between AwaitValues and FreeValues
//
// In a data group of one the share is the whole buffer at any level: nothing is copied, nothing is sent.
// Where the type of the computation is fp32, or no fp32 masters are wanted, the master is the value itself
// (at zero 3 the kept share). The collectives are issued in the order of the calls, which is the same on
// every rank of the group.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/comm/communicator.h"
#include "core/plan/shard.h"
#include "parallel/layers/weights.h"
#include "parallel/sharding/flat_layout.h"
#include "parallel/sharding/flat_memory.h"
#include "parallel/tensor/collectives.h"

namespace trireme {

struct BucketOptions {
  int zero = 1;
  at::ScalarType type = at::kFloat;  // of the computation
  at::Device device = at::kCPU;
  bool trained = true;  // false: no gradients, no masters; zero 3 splits the values all the same
  bool fp32_masters = true;  // false: the values are updated as they are
};

// What a bucket holds at the moment.
struct BucketMemory {
  int64_t value_bytes = 0;     // whole values and kept shares
  int64_t gradient_bytes = 0;  // whole gradients and shares
  int64_t master_bytes = 0;    // where masters are not the values
};

class Bucket {
 public:
  // Gives the entries' weights their value and gradient. Entries are of one grid, whose data-parallel ranks
  // `data` joins; both outlive the bucket.
  Bucket(std::string layer, std::vector<Weights::Entry*> entries, Communicator& data,
         const BucketOptions& options);
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;

  const std::string& layer() const { return layer_; }
  bool trained() const { return options_.trained; }
  BucketMemory memory() const;

  // Values. A fresh bucket is whole and zero: loading writes through Weight::value. SealValues() comes once
  // after that, takes masters from the values, and at zero 3 frees them.
  void SealValues();
  void StartGather();  // queues the all-gather; nothing where values are whole or it is under way
  void AwaitValues();  // values are whole for what follows; starts the gather where nobody has
  void FreeValues();   // nothing below zero 3

  // Gradients. PrepareGradients: before whatever adds to the layer's weight gradients; memory, zeroed, where
  // there is none. StartReduce: all contributions since the last reduction are in. At zero 0 and 1 that is
  // once a step.
  void PrepareGradients();
  void StartReduce();
  void SettleReduction();  // never waits: if the reduction is done, what it still holds is freed
  void AwaitGradients();   // all reductions are done; share_gradient() holds the sum
  void ZeroGradients();

  // For the optimizer. Elements of the rank's share, flat.
  FlatRange share() const { return share_; }
  const std::vector<FlatPart>& parts() const { return parts_; }  // of entries(), in the share
  const std::vector<Weights::Entry*>& entries() const { return entries_; }
  at::Tensor share_master();          // [share], fp32 or the values; waits for a gather under way
  at::Tensor share_gradient() const;  // fp32 [share]; after AwaitGradients
  // The share's values, [share] in the type of the computation, also of a bucket that is not trained; waits
  // for a gather under way. For reading.
  at::Tensor share_values();
  void KeepMasterOnHost();  // from now on, whatever the device
  // Around a change of the master. BeginValues gives the place of the share's new values, [share] in the type
  // of the computation; undefined where the master itself is that place. EndValues below zero 3 starts the
  // gather; in between nobody uses the values.
  at::Tensor BeginValues();
  void EndValues();
  // `part` of a state whose share is at `share_data`, as a checkpoint takes it.
  Shard ShardOf(const FlatPart& part, const std::string& state, DType dtype, void* share_data) const;

 private:
  bool split() const { return options_.zero >= 1 && data_.size() > 1; }
  bool splits_gradients() const { return options_.zero >= 2 && split(); }
  bool splits_values() const { return options_.zero >= 3 && split(); }
  at::Tensor ShareOf(const at::Tensor& whole) const;
  void ClearStale();
  void ReduceOnce();
  void ReduceAndRelease();
  void FinishReduction();

  const std::string layer_;
  const std::vector<Weights::Entry*> entries_;
  Communicator& data_;
  const BucketOptions options_;
  FlatLayout layout_;
  FlatRange share_;
  std::vector<FlatPart> parts_;

  FlatMemory values_;
  at::Tensor kept_;    // zero 3: the share of the values while they are not whole
  at::Tensor master_;  // [share]
  at::Tensor fresh_;   // zero 1, 2: the share's new values until the gather has taken them
  bool whole_ = true;
  bool master_on_host_ = false;
  Pending gather_;

  FlatMemory gradients_;
  at::Tensor share_gradient_;  // split: memory of its own
  at::Tensor arriving_;        // zero 2, 3: the reduction under way, where the share has a sum already
  bool summed_ = false;        // the share has a sum since ZeroGradients
  bool open_ = false;          // contributions may be in that are not reduced
  Pending reduction_;
};

}  // namespace trireme
