#include "tests/parallel/sharding/sharding_cases.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/error.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

at::Tensor Random(const Shape& shape, const std::string& seed) {
  const at::Generator generator = at::detail::createCPUGenerator(std::hash<std::string>()(seed));
  return at::randn(shape, generator, at::TensorOptions(at::kFloat));
}

at::Tensor InBox(at::Tensor tensor, const Box& box) {
  for (size_t dim = 0; dim < box.offset.size(); ++dim) {
    tensor = tensor.narrow(static_cast<int64_t>(dim), box.offset[dim], box.extent[dim]);
  }
  return tensor;
}

DeclaredLayer EmbeddingLayer(int tensor) {
  const Block rows{.size = 11, .parts = tensor, .padding = PaddingTo(11, tensor)};
  return {"embedding", {{.name = "embedding.weight", .dims = {SplitDim("tp", {rows}), WholeDim(3)}}}};
}

DeclaredLayer LayerA(int tensor) {
  const Block query{.size = 12, .parts = tensor};
  const Block key{.size = 6, .parts = std::max(tensor / 2, 1)};  // fewer than ranks: adjacent ranks shard
  const Dim qkv = SplitDim("tp", {query, key, key});
  return {"a",
          {{.name = "a.norm", .dims = {WholeDim(7)}, .partial_gradient = {"tp"}},
           {.name = "a.qkv", .dims = {qkv, WholeDim(5)}},
           {.name = "a.qkv_bias", .dims = {qkv}},
           {.name = "a.columns", .dims = {WholeDim(3), SplitDim("tp", {query, key})}},
           {.name = "a.replicated", .dims = {WholeDim(9), WholeDim(4)}}}};
}

DeclaredLayer LayerB(int tensor) {
  return {"b",
          {{.name = "b.scalar", .dims = {}},
           {.name = "b.norm", .dims = {WholeDim(33)}, .partial_gradient = {"tp"}},
           {.name = "b.rows", .dims = {WholeDim(33), SplitDim("tp", {{.size = 16, .parts = tensor}})}},
           {.name = "b.single", .dims = {WholeDim(1)}}}};
}

}  // namespace

std::vector<ParallelSizes> LayoutsOf(int world) {
  if (world == 1) return {{}};
  if (world == 2) return {{}, {.tensor = 2}, {.pipeline = 2}, {.context = 2}, {.replicas = 2}};
  return {{},
          {.tensor = 2},
          {.tensor = 4},
          {.context = 2},
          {.pipeline = 2},
          {.tensor = 2, .pipeline = 2},
          {.tensor = 2, .context = 2},
          {.replicas = 2},
          {.context = 2, .replicas = 2}};
}

std::unique_ptr<CommunicatorSet> MakeGroups(const Grids& grids) {
  const GroupPlan plan(
      grids, TrainingGroups(
                 {.experts = false, .tied_embedding = true, .replicas = grids.dense.Has("replica"), .buffer_mb = 1}));
  return std::make_unique<CommunicatorSet>(TestJob(), TestDevice(), plan, CommOptions{.host_memory = true});
}

std::string TextOf(const ParallelSizes& sizes, const CaseOptions& options) {
  return Concat("world ", TestJob().world(), " tp ", sizes.tensor, " cp ", sizes.context, " pp ", sizes.pipeline,
                " replicas ", sizes.replicas, " zero ", options.zero, " ", c10::toString(options.type),
                " micro batches ", options.micro_batches);
}

std::vector<DeclaredLayer> LayersOf(const Grids& grids, int stage) {
  const int tensor = grids.dense.Size("tp");
  if (grids.dense.Size("pp") == 1) return {EmbeddingLayer(tensor), LayerA(tensor), LayerB(tensor)};
  if (stage == 0) return {EmbeddingLayer(tensor), LayerA(tensor)};
  return {LayerB(tensor), EmbeddingLayer(tensor)};
}

at::Tensor InitialValue(const Placement& placement, at::ScalarType type) {
  return Random(placement.GlobalShape(), placement.name()).to(type).to(at::kFloat);
}

bool SumsOverTensor(const Placement& placement) {
  const ParameterDeclaration& declaration = placement.declaration();
  return !declaration.partial_gradient.empty() ||
         std::any_of(declaration.dims.begin(), declaration.dims.end(), [](const Dim& dim) { return dim.axis == "tp"; });
}

at::Tensor Contribution(const Placement& placement, int rank, int step, int micro_batch) {
  // Replicas that compute the same thing: all do as the first one.
  if (!SumsOverTensor(placement)) rank -= placement.mesh().Coordinate(rank, "tp");
  return Random(placement.GlobalShape(), Concat(placement.name(), " ", rank, " ", step, " ", micro_batch));
}

void CopyToLocal(const Placement& placement, int rank, const at::Tensor& whole, const at::Tensor& local) {
  for (const LocalBox& box : placement.LocalBoxes(rank)) {
    InBox(local, {box.local_offset, box.global.extent}).copy_(InBox(whole, box.global));
  }
}

ModelRank::ModelRank(const Grids& grids, CommunicatorSet& groups, const CaseOptions& options)
    : grids_(grids), options_(options) {
  const int rank = TestJob().rank();
  for (const DeclaredLayer& layer : LayersOf(grids, grids.dense.Coordinate(rank, "pp"))) {
    std::vector<Weights::Entry*> of_layer;
    for (const ParameterDeclaration& declaration : layer.parameters) {
      entries_.push_back({PlainParameter(declaration, declaration.name),
                          Placement(declaration, grids),
                          {.name = declaration.name, .value = {}, .gradient = {}}});
      of_layer.push_back(&entries_.back());
    }
    buckets_.push_back(
        std::make_unique<Bucket>(layer.name, of_layer, groups.Get("dp-cp"),
                                 BucketOptions{.zero = options.zero,
                                               .type = options.type,
                                               .masters = options.masters,
                                               .replicas = groups.Has("replica") ? &groups.Get("replica") : nullptr}));
  }
  for (Weights::Entry& entry : entries_) {
    CopyToLocal(entry.placement, rank, InitialValue(entry.placement, options.type), entry.weight.value);
  }
  for (const auto& bucket : buckets_) bucket->SealValues();
  Communicator* embedding = grids.dense.Size("pp") > 1 ? &groups.Get("embedding") : nullptr;
  optimizer_ = std::make_unique<ShardedOptimizer>(
      buckets(), OptimizerGroups{groups.Get("tp"), groups.Get("world"), embedding}, TestJob(), options.adamw);
}

std::vector<Bucket*> ModelRank::buckets() {
  std::vector<Bucket*> list;
  for (const auto& bucket : buckets_) list.push_back(bucket.get());
  return list;
}

Bucket* ModelRank::BucketOf(const std::string& layer) {
  for (const auto& bucket : buckets_) {
    if (bucket->layer() == layer) return bucket.get();
  }
  return nullptr;
}

void ModelRank::AddLocalGradients(Bucket& bucket, int step, int micro_batch) {
  const int rank = TestJob().rank();
  for (Weights::Entry* entry : bucket.entries()) {
    const at::Tensor local = at::zeros_like(entry->weight.gradient);
    CopyToLocal(entry->placement, rank, Contribution(entry->placement, rank, step, micro_batch), local);
    entry->weight.gradient_sum().add_(local);
  }
}

void ModelRank::RunStep(int step) {
  for (int micro_batch = 0; micro_batch < options_.micro_batches; ++micro_batch) {
    for (const auto& bucket : buckets_) {
      bucket->AwaitValues();
      bucket->PrepareGradients();
      AddLocalGradients(*bucket, step, micro_batch);
      if (options_.zero >= 2 || micro_batch + 1 == options_.micro_batches) bucket->StartReduce();
      bucket->FreeValues();
    }
  }
}

std::map<std::string, at::Tensor> ModelRank::Values() {
  std::map<std::string, at::Tensor> values;
  for (const auto& bucket : buckets_) {
    bucket->AwaitValues();
    for (const Weights::Entry* entry : bucket->entries()) values[entry->weight.name] = entry->weight.value.clone();
    bucket->FreeValues();
  }
  return values;
}

PlainModel::PlainModel(const Grids& grids, const CaseOptions& options, double learning_rate)
    : grids_(grids), options_(options) {
  std::map<std::string, at::Tensor> values;
  for (int stage = 0; stage < grids.dense.Size("pp"); ++stage) {
    for (const DeclaredLayer& layer : LayersOf(grids, stage)) {
      for (const ParameterDeclaration& declaration : layer.parameters) {
        const Placement& placement = placements_.emplace(declaration.name, Placement(declaration, grids)).first->second;
        stages_[declaration.name].push_back(stage);
        values[declaration.name] = InitialValue(placement, options.type);
      }
    }
  }
  const OptimizerOptions& adamw = options.adamw;
  adamw_ = std::make_unique<PlainAdamW>(
      values, PlainOptions{learning_rate, adamw.beta1, adamw.beta2, adamw.eps, adamw.weight_decay});
}

std::map<std::string, at::Tensor> PlainModel::Gradients(int step) const {
  std::map<std::string, at::Tensor> sums;
  for (const auto& [name, placement] : placements_) {
    at::Tensor sum = at::zeros(placement.GlobalShape(), at::kDouble);
    for (int rank = 0; rank < grids_.world(); ++rank) {
      const std::vector<int>& stages = stages_.at(name);
      const int stage = grids_.dense.Coordinate(rank, "pp");
      if (std::find(stages.begin(), stages.end(), stage) == stages.end()) continue;
      if (!SumsOverTensor(placement) && grids_.dense.Coordinate(rank, "tp") != 0) continue;
      for (int micro_batch = 0; micro_batch < options_.micro_batches; ++micro_batch) {
        const at::Tensor part = Contribution(placement, rank, step, micro_batch);
        for (const LocalBox& box : placement.LocalBoxes(rank)) InBox(sum, box.global) += InBox(part, box.global);
      }
    }
    sums[name] = sum.to(at::kFloat);
  }
  return sums;
}

double PlainModel::Norm(const std::map<std::string, at::Tensor>& gradients) {
  double squares = 0;
  for (const auto& [name, gradient] : gradients) {
    squares += gradient.to(at::kDouble).square().sum().item<double>();
  }
  return std::sqrt(squares);
}

double PlainModel::RunStep(int step) {
  std::map<std::string, at::Tensor> gradients = Gradients(step);
  const double norm = Norm(gradients);
  if (options_.adamw.clip > 0 && options_.adamw.clip < norm) {
    for (auto& [name, gradient] : gradients) gradient.mul_(options_.adamw.clip / (norm + 1e-6));
  }
  adamw_->Step(gradients);
  return norm;
}

double Distance(const at::Tensor& found, const at::Tensor& wanted) {
  if (wanted.numel() == 0) return 0;
  return (found.to(at::kDouble) - wanted.to(at::kDouble)).abs().max().item<double>();
}

std::map<std::string, at::Tensor> Assemble(const std::vector<Shard>& shards, const std::string& state,
                                           const PlainModel& plain, Communicator& world) {
  std::map<std::string, at::Tensor> wholes;
  for (const auto& [name, placement] : plain.placements()) {
    const at::Tensor whole = at::zeros(placement.GlobalShape(), at::kFloat), owners = at::zeros_like(whole);
    for (const Shard& shard : shards) {
      if (shard.key != state + "/" + name) continue;
      EXPECT_EQ(shard.global_shape, placement.GlobalShape());
      for (const ShardBox& box : shard.boxes) {
        if (box.replica != 0) continue;
        const at::Tensor mine =
            at::from_blob(static_cast<float*>(shard.data) + box.offset, box.global.extent, shard.strides);
        InBox(whole, box.global).add_(mine);
        InBox(owners, box.global).add_(1);
      }
    }
    AllReduce(whole, world);
    AllReduce(owners, world);
    EXPECT_TRUE(owners.eq(1).all().item<bool>()) << state << "/" << name << ": " << owners;
    wholes[name] = whole;
  }
  return wholes;
}

}  // namespace trireme
