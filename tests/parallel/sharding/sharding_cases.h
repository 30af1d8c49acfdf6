// A small model for the tests of buckets and optimizer: uneven shapes, norms with partial gradients, shared
// key-value heads, a padded and tied embedding. One side is a rank of a layout; the other knows every rank's
// contributions and holds the whole model.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/communicator_set.h"
#include "parallel/sharding/optimizer.h"
#include "tests/core/comm/spmd.h"
#include "tests/parallel/sharding/plain_adamw.h"

namespace trireme {

inline constexpr double kRate = 0.01;  // of learning

// Layouts that fill the world: data, tensor, context and pipeline parallel.
std::vector<ParallelSizes> LayoutsOf(int world);

// The communicators of a layout, on host memory.
std::unique_ptr<CommunicatorSet> MakeGroups(const Grids& grids);

struct CaseOptions {
  int zero = 0;
  at::ScalarType type = at::kFloat;
  int micro_batches = 1;
  Masters masters = Masters::kFp32;
  OptimizerOptions adamw = {.beta1 = 0.8, .beta2 = 0.9, .weight_decay = 0.3, .clip = 0};
};
std::string TextOf(const ParallelSizes& sizes, const CaseOptions& options);

// Names and declarations of a stage's layers, in order. Stage 0 of 2 has the embedding and a, stage 1 has b
// and the tied copy of the embedding.
struct DeclaredLayer {
  std::string name;
  std::vector<ParameterDeclaration> parameters;
};
std::vector<DeclaredLayer> LayersOf(const Grids& grids, int stage);

at::Tensor InitialValue(const Placement& placement, at::ScalarType type);  // whole, fp32

// What `rank` adds to the gradient of the whole parameter in one micro batch, if it holds it.
at::Tensor Contribution(const Placement& placement, int rank, int step, int micro_batch);
// Whether the contributions of tensor-parallel ranks are summed. If not, they are equal.
bool SumsOverTensor(const Placement& placement);

// Copies between a whole tensor and a rank's local part of it.
void CopyToLocal(const Placement& placement, int rank, const at::Tensor& whole, const at::Tensor& local);

template <typename Visit>  // visit(sizes, grids, groups)
void ForEachLayout(const Visit& visit) {
  for (const ParallelSizes& sizes : LayoutsOf(TestJob().world())) {
    const Grids grids = MakeGrids(TestJob().world(), sizes);
    const std::unique_ptr<CommunicatorSet> groups = MakeGroups(grids);
    visit(sizes, grids, *groups);
  }
}

double Distance(const at::Tensor& found, const at::Tensor& wanted);  // the maximum over all elements

class ModelRank {
 public:
  ModelRank(const Grids& grids, CommunicatorSet& groups, const CaseOptions& options);

  // All micro batches of a step; afterwards gradients are being reduced.
  void RunStep(int step);
  void AddLocalGradients(Bucket& bucket, int step, int micro_batch);
  Bucket* BucketOf(const std::string& layer);
  std::vector<Bucket*> buckets();
  ShardedOptimizer& optimizer() { return *optimizer_; }
  std::deque<Weights::Entry>& entries() { return entries_; }
  // Local values, all gathered.
  std::map<std::string, at::Tensor> Values();

 private:
  const Grids& grids_;
  const CaseOptions options_;
  std::deque<Weights::Entry> entries_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::unique_ptr<ShardedOptimizer> optimizer_;
};

class PlainModel {
 public:
  PlainModel(const Grids& grids, const CaseOptions& options, double learning_rate);

  // Sums of all contributions of a step, fp32; the norm over all; one update, clipped.
  std::map<std::string, at::Tensor> Gradients(int step) const;
  static double Norm(const std::map<std::string, at::Tensor>& gradients);
  double RunStep(int step);

  const std::map<std::string, Placement>& placements() const { return placements_; }
  const PlainAdamW& adamw() const { return *adamw_; }

 private:
  const Grids& grids_;
  const CaseOptions options_;
  std::map<std::string, Placement> placements_;
  std::map<std::string, std::vector<int>> stages_;
  std::unique_ptr<PlainAdamW> adamw_;
};

// Assembles whole tensors from what all ranks own of the shards of a state; checks that each element has one
// owner.
std::map<std::string, at::Tensor> Assemble(const std::vector<Shard>& shards, const std::string& state,
                                           const PlainModel& plain, Communicator& world);

}  // namespace trireme
