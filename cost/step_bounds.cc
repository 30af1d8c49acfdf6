// What a search needs of a layout before it runs its schedule: bounds on time and memory, and the memory itself.
#include <algorithm>

#include "core/base/error.h"
#include "cost/run_bytes.h"
#include "cost/step_model.h"
#include "parallel/graph/parameters.h"
#include "parallel/sharding/optimizers.h"
#include "session/run_plan.h"
#include "train/plan/activations.h"

namespace trireme {

double ElementBytes(const Config& config) { return config.model().dtype() == DTYPE_FP32 ? 4 : 2; }

namespace {

double MomentBytes(const OptimizerConfig& optimizer) {
  return optimizer.moments() == MOMENTS_BF16 ? 2 : optimizer.moments() == MOMENTS_8BIT ? 1 : 4;
}

}  // namespace

double UpdateBytes(const Config& config) {
  const OptimizerConfig& optimizer = config.optimizer();
  const double moment = MomentBytes(optimizer);
  const double master = optimizer.masters() == MASTERS_FP32 ? 8 : optimizer.masters() == MASTERS_SPLIT ? 4 : 2;
  const auto states = static_cast<double>(OptimizerStates(optimizer.name()).size());
  return 4 + master + 2 * states * moment + ElementBytes(config) + (optimizer.clip() > 0 ? 4 : 0);
}

double SavedBytes(const Config& config) {
  const OptimizerConfig& optimizer = config.optimizer();
  const auto states = static_cast<double>(OptimizerStates(optimizer.name()).size());
  return (optimizer.masters() == MASTERS_NONE ? ElementBytes(config) : 4) + states * MomentBytes(optimizer);
}

// A rank cannot begin before the stages before its first one have passed a micro batch on.
double StepModel::LowerBound(const Layout& layout) {
  const std::vector<Stage>& stages = StagesOf(layout);
  const std::vector<Durations> durations = DurationsOf(layout, stages);
  const StagePlacement& placement = PlacementOf(layout);
  const int all = MicroBatches(layout);
  double bound = 0, before = 0, once = 0;
  Stage like;  // the rank before: most are alike
  for (int rank = 0; rank < layout.pipeline; ++rank) {
    double busy = 0;
    for (int chunk = 0; chunk < placement.chunks; ++chunk) {
      const Durations& one = durations[static_cast<size_t>(placement.StageAt(rank, chunk))];
      busy += one.forward + one.backward_input + one.backward_weight;
    }
    const Stage sum = RankSum(layout, stages, rank);
    if (rank == 0 || !(sum == like)) once = OptimizerSeconds(layout, sum) + DataSeconds(layout, sum);
    like = sum;
    bound = std::max(bound, before + all * busy + once);
    before += durations[static_cast<size_t>(placement.StageAt(rank, 0))].forward;
  }
  return bound;
}

double StepModel::PipelineBound(const Layout& layout) {
  const std::vector<Stage>& stages = StagesOf(layout);
  const StagePlacement& placement = PlacementOf(layout);
  const int all = MicroBatches(layout);
  double bound = 0, before = 0;
  for (int rank = 0; rank < layout.pipeline; ++rank) {
    double busy = 0;
    for (int chunk = 0; chunk < placement.chunks; ++chunk) {
      const Stage& stage = stages[static_cast<size_t>(placement.StageAt(rank, chunk))];
      busy += stage.forward.total() + stage.input.total() + stage.weight.total();
    }
    bound = std::max(bound, before + all * busy);
    before += stages[static_cast<size_t>(placement.StageAt(rank, 0))].forward.total();
  }
  return bound;
}

// Groups of a smaller world with the same axes: how large a group is does not matter, whether it is one rank does.
double StepModel::CommunicatorBytes(const Layout& layout) {
  const int wide = layout.tensor * layout.context, expert = layout.expert * layout.expert_tensor;
  int data = layout.data();
  for (int fewer = 1; fewer < data; ++fewer) {
    const bool divides =
        layout.data() % fewer == 0 && fewer % layout.replicas == 0 && wide * fewer % (expert * layout.replicas) == 0;
    const bool alike = (fewer > 1) == (layout.data() > 1) && (wide * fewer > expert) == (wide * layout.data() > expert);
    if (divides && alike) data = fewer;
  }
  const int pipeline = std::min(layout.pipeline, 3);
  const std::vector<int> key{layout.tensor,        pipeline,       layout.context, data, layout.expert,
                             layout.expert_tensor, layout.replicas};
  const auto [at, is_new] = communicators_.try_emplace(key, 0);
  if (!is_new) return at->second;
  Config config = WithLayout(config_, layout);
  config.mutable_parallel()->set_pipeline(pipeline);
  const Grids grids = MakeGrids(wide * data * pipeline, SizesOf(config.parallel()));
  const std::vector<int> megabytes = GroupsOf(config, grids, HasExperts(graph_)).DeviceMemoryMb();
  at->second = *std::max_element(megabytes.begin(), megabytes.end()) * static_cast<double>(1 << 20);
  return at->second;
}

double StepModel::PassesBound(const Layout& layout) {
  constexpr size_t kMostCosts = 512;  // of searches over many splits only the bounds are worth keeping
  if (costs_.size() > kMostCosts) costs_.clear();
  double all = 0;
  for (const LayerCost& cost : Costs(layout)) all += cost.forward.total() + cost.input.total() + cost.weight.total();
  const double rows = config_.run().global_batch() / static_cast<double>(layout.micro_batch);
  return all * rows * layout.tensor * layout.context / layout.world;
}

double StepModel::MemoryBound(const Layout& layout) {
  const auto [held, is_unknown] =
      held_.try_emplace(std::tuple(layout.tensor, layout.sequence, layout.expert, layout.expert_tensor));
  if (is_unknown) {
    for (const LayerWork& work : Works(layout)) {
      held->second.dense += static_cast<double>(work.dense);
      held->second.experts += static_cast<double>(work.experts);
      held->second.trained_dense += static_cast<double>(work.trained_dense);
      held->second.trained_experts += static_cast<double>(work.trained_experts);
    }
  }
  const auto& [dense, experts, trained_dense, trained_experts] = held->second;
  // At least: packed weights have 4 bits, optimizers other than AdamW may have no state.
  const OptimizerConfig& optimizer = config_.optimizer();
  const bool keeps = optimizer.name() == "adamw" && !layout.offload_optimizer;
  const double element = ElementBytes(config_), value = graph_.packing ? 0.4 : element;
  const double gradient = optimizer.update() == UPDATE_IN_BACKWARD ? 0 : 4;
  const double states = keeps ? 2 * MomentBytes(optimizer) : 0;
  const auto bytes = [&](double all, double trained, double ranks) {
    const double share = layout.zero >= 1 ? ranks : 1;
    return all * value / (layout.zero == 3 ? ranks : 1) + trained * gradient / (layout.zero >= 2 ? ranks : 1) +
           trained * states / share;
  };
  const double dense_ranks = std::max(1, layout.data() * layout.context / layout.replicas);
  const double expert_ranks =
      std::max(1, layout.world / (layout.expert * layout.expert_tensor * layout.pipeline) / layout.replicas);
  const LayerKey key{LayerLayoutOf(layout), static_cast<int>(layout.recompute)};
  const auto [at, is_new] = saved_.try_emplace(key, 0);
  if (is_new) {
    const ActivationShape shape{.tokens = layout.micro_batch * length_ / layout.context,
                                .tensor = layout.tensor,
                                .sequence = layout.sequence,
                                .expert_tensor = layout.expert_tensor,
                                .element_bytes = static_cast<int64_t>(element),
                                .qkv_once = true};
    if (config_.memory().recompute_every() == 1 && !config_.memory().offload_activations()) {
      std::map<size_t, double> priced;
      for (size_t i = first_trained_; i < graph_.layers.size(); ++i) {
        const auto [one, is_first] = priced.try_emplace(like_[i], 0);
        if (is_first)
          one->second = static_cast<double>(SavedActivationBytes(graph_.layers[i], layout.recompute, shape));
        at->second += one->second;
      }
    }
  }
  return (bytes(dense, trained_dense, dense_ranks) + bytes(experts, trained_experts, expert_ranks) + at->second) /
         layout.pipeline;
}

const LayerElements& StepModel::ElementsOf(const Layout& layout, const Grids& grids) {
  const auto key = std::tuple(layout.tensor, layout.sequence, layout.expert, layout.expert_tensor);
  const auto found = elements_.find(key);
  if (found != elements_.end()) return found->second;
  const TensorSplit split{layout.tensor, layout.sequence, layout.expert, layout.expert_tensor};
  return elements_.emplace(key, CountElements(graph_, split, grids)).first->second;
}

void StepModel::KeepAsAssumed(const Layout& layout, bool has_head, RankMemory& memory) const {
  const ActivationShape shape{.tokens = layout.micro_batch * length_ / layout.context,
                              .tensor = layout.tensor,
                              .sequence = layout.sequence,
                              .expert_tensor = layout.expert_tensor,
                              .element_bytes = static_cast<int64_t>(ElementBytes(config_))};
  if (!assumptions_.chunked_logits && has_head) {
    memory.logits = shape.tokens * VocabularyOf(graph_) / layout.tensor * (shape.element_bytes + 3 * 4);
  }
  if (assumptions_.saves_operators || layout.recompute != RECOMPUTE_SELECTIVE) return;
  double ours = 0, theirs = 0;
  int64_t whole = 0;  // a layer that is recomputed
  for (const Layer& layer : graph_.layers) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    if (decoder == nullptr || decoder->experts) continue;
    const AttentionSpec& attention = decoder->attention;
    const int64_t saved = (2 * attention.heads + attention.kv_heads) * attention.head_dim + decoder->mlp.ffn;
    theirs += static_cast<double>(
        (saved / layout.tensor * shape.tokens + 2 * attention.hidden * shape.TokensBetween()) * shape.element_bytes);
    ours += static_cast<double>(SavedActivationBytes(layer, RECOMPUTE_SELECTIVE, shape));
    whole = std::max(whole, SavedActivationBytes(layer, RECOMPUTE_NONE, shape));
  }
  if (ours > 0)
    memory.activations = static_cast<int64_t>(static_cast<double>(memory.activations) * theirs / ours) + whole;
}

const Grids& StepModel::GridsOf(const Config& config, int world) {
  constexpr size_t kMostGrids = 512;
  const ParallelConfig& parallel = config.parallel();
  const std::vector<int> key{world,
                             parallel.tensor(),
                             parallel.pipeline(),
                             parallel.context(),
                             parallel.expert(),
                             parallel.expert_tensor(),
                             parallel.replicas()};
  const auto found = grids_.find(key);
  if (found != grids_.end()) return found->second;
  if (grids_.size() > kMostGrids) grids_.clear();
  return grids_.emplace(key, MakeGrids(world, SizesOf(parallel))).first->second;
}

RankMemory StepModel::Memory(const Layout& layout) {
  Config& config = laid_out_;
  if (!config.has_device()) config = config_;
  *config.mutable_parallel() = config_.parallel();
  SetLayout(config, layout);
  config.set_device(device_.kind == "npu" ? DEVICE_NPU : device_.kind == "cuda" ? DEVICE_CUDA : DEVICE_CPU);
  config.mutable_data()->set_max_length(static_cast<int32_t>(length_));
  const StagePlacement& placement = PlacementOf(layout);
  const Grids& grids = GridsOf(config, layout.world);
  const GroupPlan none(grids, {});
  const MemoryInputs inputs{.config = config,
                            .graph = graph_,
                            .grids = grids,
                            .groups = none,
                            .placement = placement,
                            .stages = Stages(placement.stages()),
                            .timeline = Order(layout),
                            .elements = &ElementsOf(layout, grids)};
  RankMemory most;
  std::vector<RankMemory> positions = PlanPositions(inputs);
  for (int rank = 0; rank < placement.ranks; ++rank) {
    RankMemory& position = positions[static_cast<size_t>(rank)];
    bool has_head = false;
    for (int chunk = 0; chunk < placement.chunks; ++chunk) has_head |= placement.IsLast(placement.StageAt(rank, chunk));
    KeepAsAssumed(layout, has_head, position);
    if (position.device() > most.device()) most = position;
  }
  most.communicators = static_cast<int64_t>(CommunicatorBytes(layout));
  return most;
}

}  // namespace trireme
