// Bucket: the memory of one layer's parameters: values, gradients and fp32 master weights, one flat buffer
// each, sharded over the data-parallel ranks by ZeRO stage. Moves and reduces; the executor decides when, and
// the optimizer what happens to a gradient.
//
//   zero 0: every rank holds and updates everything; gradients are all-reduced
//   zero 1: a rank updates its shard; gradients are reduce-scattered once per step, new values all-gathered
//   zero 2: a full gradient exists only from a backward pass to its reduction, once per micro batch
//   zero 3: full values, too, exist only between AwaitValues and FreeValues
//
// In a data group of one the shard is the whole buffer at any level: nothing is copied, nothing is sent.
// Where the type of the computation is fp32, or no masters are wanted, the master is the value itself (at zero 3
// the kept shard). The collectives are issued in the order of the calls, which is the same on
// every rank of the group.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/comm/communicator.h"
#include "core/device/buffer.h"
#include "core/plan/shard.h"
#include "parallel/layers/weights.h"
#include "parallel/sharding/flat_layout.h"
#include "parallel/sharding/flat_memory.h"
#include "parallel/tensor/collectives.h"

namespace trireme {

// Where updates are added.
enum class Masters {
  kFp32,   // to fp32 copies, where values are narrower
  kNone,   // to the values as they are
  kSplit,  // to bf16 values with 16 further bits each: fp32 in half the memory (ops/flat/split_master.h)
};

struct BucketOptions {
  int zero = 1;
  at::ScalarType type = at::kFloat;  // compute dtype
  at::Device device = at::kCPU;
  bool trained = true;  // false: no gradients, no masters; zero 3 splits the values all the same
  Masters masters = Masters::kFp32;
  bool offload_values = false;  // at zero 3 the kept shard is in host memory, unless it is the master, too
  // Other data-parallel ranks with the same shard, which add their gradients to it; outlives the bucket. nullptr: none.
  Communicator* replicas = nullptr;
};

// What a bucket currently holds.
struct BucketMemory {
  int64_t value_bytes = 0;     // full values and kept shards
  int64_t gradient_bytes = 0;  // full gradients and shards
  int64_t master_bytes = 0;    // where masters are separate from the values
};

class Bucket {
 public:
  // Allocates value and gradient of the entries' weights. All entries are of one grid, over whose data-parallel
  // group `data` it is sharded; both outlive the bucket.
  Bucket(std::string layer, std::vector<Weights::Entry*> entries, Communicator& data, const BucketOptions& options);
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;

  const std::string& layer() const { return layer_; }
  bool trained() const { return options_.trained; }
  BucketMemory memory() const;

  // Values. A new bucket holds full values, all zero: loading writes through Weight::value. SealValues() is
  // called once after that, copies the values to the masters, and at zero 3 frees them.
  void SealValues();
  void StartGather();  // starts the all-gather, unless values are full or it is in flight
  void AwaitValues();  // values are full for what follows; starts the gather if needed
  void FreeValues();   // no-op below zero 3
  // Of a sealed bucket that is not trained: its values, or the kept shard of them, leave the device for host memory and
  // return. In between nothing may use them. No-ops where the device is the host.
  void OffloadValues();
  void ReloadValues();
  // Of a sealed bucket that is not trained and not offloaded: values = weight x those of `other`, a bucket with the
  // same entries, + (1 - weight) x its own. Collective over the data group.
  void MixValues(Bucket& other, double weight);

  // Gradients. PrepareGradients: before anything accumulates into the layer's weight gradients; allocates and
  // zeroes them if needed. StartReduce: after all contributions since the last reduction. At zero 0 and 1
  // once per step.
  void PrepareGradients();
  void StartReduce();
  // Frees what a reduction still holds; the host never waits. If the host computes, or of the `latest` reduction,
  // only if it is complete. Otherwise what is computed from now on waits for it: the host may be a whole step
  // ahead of the device and would collect the gradients of all layers.
  void SettleReduction(bool latest = true);
  void AwaitGradients();  // waits for all reductions; shard_gradient() then holds the sum over the group
  // Once per step after AwaitGradients: adds those of the replicas. Others may start in between.
  void StartReplicaSum();
  void AwaitReplicaSum() { replica_sum_.Wait(); }
  void ZeroGradients();
  // Between steps, when they count as zero: their memory is freed until something accumulates again.
  void ReleaseGradients();
  // Called at the end of each StartReduce in a data group of one, where gradients are then complete; empty:
  // nothing is.
  void WhenReduced(std::function<void()> work) { when_reduced_ = std::move(work); }
  void DropGradients();  // in a data group of one: they count as zero, and their memory is freed

  // For the optimizer. Elements of the rank's shard, flat.
  FlatRange shard() const { return shard_; }
  const std::vector<FlatPart>& parts() const { return parts_; }  // of entries(), in the shard
  const std::vector<Weights::Entry*>& entries() const { return entries_; }
  at::Tensor shard_master();  // [shard], fp32 or the values, or low halves; waits for a gather under way
  bool has_split_master() const { return master_.defined() && master_.scalar_type() == at::kShort; }
  at::Tensor JoinedMaster();  // of a split one: [shard] fp32, a copy
  void TakeJoinedMaster(const at::Tensor& master);
  at::Tensor shard_gradient() const;  // fp32 [shard]; after AwaitGradients
  // The shard's values, [shard] in the compute dtype, also of a bucket that is not trained; waits for a
  // gather in flight. Read-only.
  at::Tensor shard_values();
  void KeepMasterOnHost();  // from now on, on any device
  // A master that is separate from the values and not kept on the host: off the device and back, when nothing uses it.
  void MoveMaster(at::Device device);
  // Around a change of the master. BeginValues returns the buffer for the shard's new values, [shard] in the
  // compute dtype; undefined if the master itself is that buffer. Of a split master it has the old values. Below zero
  // 3, EndValues starts the gather; in between nothing may use the values.
  at::Tensor BeginValues();
  void EndValues();
  // `part` of a state whose shard is at `shard_data`, as checkpoint/ expects it.
  Shard ShardOf(const FlatPart& part, const std::string& state, DType dtype, void* shard_data) const;

 private:
  bool split() const { return options_.zero >= 1 && data_.size() > 1; }
  bool splits_gradients() const { return options_.zero >= 2 && split(); }
  bool splits_values() const { return options_.zero >= 3 && split(); }
  bool has_separate_master() const;
  bool keeps_on_host() const { return pinned_.bytes() > 0; }
  void KeepShardOnHost();
  at::Tensor OwnShard(const at::Tensor& whole) const;
  void ClearStale();
  void HoldGradients();
  void ReduceOnce();
  void ReduceAndRelease();
  void FinishReduction();

  const std::string layer_;
  const std::vector<Weights::Entry*> entries_;
  Communicator& data_;
  const BucketOptions options_;
  FlatLayout layout_;
  FlatRange shard_;
  std::vector<FlatPart> parts_;

  FlatMemory values_;
  at::Tensor kept_;      // zero 3: the shard of the values while they are not whole
  PinnedBuffer pinned_;  // of kept_, where it is in host memory
  at::Tensor host_;      // of values that are offloaded: never changed, as the values are not
  at::Tensor master_;    // [shard]
  at::Tensor fresh_;     // zero 1, 2: the shard's new values until the gather has taken them
  bool whole_ = true;
  bool master_on_host_ = false;
  Pending gather_;

  FlatMemory gradients_;
  at::Tensor shard_gradient_;  // a separate buffer if sharded
  at::Tensor arriving_;        // zero 2, 3: output of a reduction in flight, if the shard already has a sum
  std::function<void()> when_reduced_;
  bool summed_ = false;  // the shard has been reduced since ZeroGradients
  bool open_ = false;    // there may be unreduced contributions
  Pending reduction_, replica_sum_;
};

}  // namespace trireme
