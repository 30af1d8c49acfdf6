#include "cost/step_model.h"

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "core/base/rounding.h"
#include "cost/run_bytes.h"
#include "parallel/graph/costs.h"
#include "parallel/graph/like_layers.h"
#include "parallel/schedule/schedules.h"
#include "session/run_plan.h"
#include "stages/preference_check.h"
#include "stages/retrieval_check.h"
#include "stages/stage.h"

namespace trireme {
namespace {

constexpr double kGiB = 1 << 30;
constexpr double kHostGbs = 25, kHostUpdateGbs = 60;  // to host memory and back; of an update there

int UlyssesOf(const ParallelConfig& parallel) {
  if (parallel.context_method() == CONTEXT_ULYSSES) return parallel.context();
  return parallel.context_method() == CONTEXT_HYBRID ? std::min(parallel.ulysses(), parallel.context()) : 1;
}

}  // namespace

Layout LayoutOf(const Config& config, int world) {
  const ParallelConfig& parallel = config.parallel();
  return {.world = world,
          .tensor = parallel.tensor(),
          .pipeline = parallel.pipeline(),
          .context = parallel.context(),
          .expert = parallel.expert(),
          .expert_tensor = parallel.expert_tensor(),
          .ulysses = UlyssesOf(parallel),
          .sequence = parallel.sequence(),
          .zero = parallel.zero(),
          .replicas = parallel.replicas(),
          .schedule = parallel.schedule(),
          .virtual_stages = parallel.virtual_stages(),
          .recompute = config.memory().recompute(),
          .offload_optimizer = config.memory().offload_optimizer(),
          .micro_batch = config.run().micro_batch()};
}

Config WithLayout(Config config, const Layout& layout) {
  SetLayout(config, layout);
  return config;
}

void SetLayout(Config& config, const Layout& layout) {
  ParallelConfig& parallel = *config.mutable_parallel();
  parallel.set_tensor(layout.tensor);
  parallel.set_pipeline(layout.pipeline);
  parallel.set_context(layout.context);
  parallel.set_expert(layout.expert);
  parallel.set_expert_tensor(layout.expert_tensor);
  parallel.set_sequence(layout.sequence);
  parallel.set_zero(layout.zero);
  parallel.set_replicas(layout.replicas);
  parallel.set_schedule(layout.schedule);
  parallel.set_virtual_stages(layout.virtual_stages);
  if (layout.context > 1) {
    parallel.set_context_method(layout.ulysses == 1                ? CONTEXT_RING
                                : layout.ulysses == layout.context ? CONTEXT_ULYSSES
                                                                   : CONTEXT_HYBRID);
    if (parallel.context_method() == CONTEXT_HYBRID) parallel.set_ulysses(layout.ulysses);
  }
  config.mutable_memory()->set_recompute(layout.recompute);
  config.mutable_memory()->set_offload_optimizer(layout.offload_optimizer);
  config.mutable_run()->set_micro_batch(layout.micro_batch);
}

StepModel::StepModel(const Config& config, const LayerGraph& graph, const DeviceRates& device,
                     const Assumptions& assumptions)
    : config_(config),
      graph_(graph),
      device_(device),
      assumptions_(assumptions),
      update_bytes_(UpdateBytes(config)),
      pricer_(device, assumptions),
      links_(device),
      like_(LikeLayers(graph)),
      first_trained_(FirstTrained(graph)),
      length_(int64_t{config.data().max_length()} *
              (FactsOf(config).records == Records::kPairs ? 2 : TextsPerRecord(config))) {
  if (assumptions.fp8 && device.fp8_tflops == 0) throw InputError("--assume precision=fp8: ", device.name, " has none");
}

LayerLayout StepModel::LayerLayoutOf(const Layout& layout) const {
  return {.tensor = layout.tensor,
          .sequence = layout.sequence,
          .context = layout.context,
          .ulysses = layout.ulysses,
          .expert = layout.expert,
          .expert_tensor = layout.expert_tensor,
          .micro_batch = layout.micro_batch,
          .length = length_,
          .element_bytes = ElementBytes(config_)};
}

const std::vector<LayerWork>& StepModel::Works(const Layout& layout) {
  const auto key = std::tuple(layout.tensor, layout.sequence, layout.expert, layout.expert_tensor);
  const auto found = works_.find(key);
  if (found != works_.end()) return found->second;
  const TensorSplit split{layout.tensor, layout.sequence, layout.expert, layout.expert_tensor};
  std::vector<LayerWork> works;
  for (size_t i = 0; i < graph_.layers.size(); ++i) {
    works.push_back(like_[i] == i ? WorkOf(graph_, graph_.layers[i], split) : works[like_[i]]);
  }
  return works_.emplace(key, std::move(works)).first->second;
}

const std::vector<LayerCost>& StepModel::Costs(const Layout& layout) {
  const LayerKey key{LayerLayoutOf(layout), static_cast<int>(layout.recompute)};
  const auto found = costs_.find(key);
  if (found != costs_.end()) return found->second;
  const std::vector<LayerWork>& works = Works(layout);
  const auto every = static_cast<size_t>(config_.memory().recompute_every());
  const size_t embedding = EmbeddingIndex(graph_);
  std::map<std::pair<size_t, int>, LayerCost> priced;
  std::vector<LayerCost> costs;
  for (size_t i = 0; i < graph_.layers.size(); ++i) {
    const bool skipped = layout.recompute == RECOMPUTE_FULL && i > embedding && (i - embedding - 1) % every != 0;
    const Recompute recompute = skipped ? RECOMPUTE_NONE : layout.recompute;
    const bool differentiated = i >= first_trained_;
    const std::pair<size_t, int> like(like_[i], 2 * static_cast<int>(recompute) + (differentiated ? 1 : 0));
    auto at = priced.find(like);
    if (at == priced.end()) {
      const LayerCost cost = pricer_.Price(graph_.layers[i], works[i], std::get<0>(key), recompute, differentiated);
      at = priced.emplace(like, cost).first;
    }
    costs.push_back(at->second);
  }
  return costs_.emplace(key, std::move(costs)).first->second;
}

bool StepModel::HasSchedule(const Layout& layout) {
  const PipelineKey key(layout.schedule, layout.pipeline, layout.virtual_stages, Shown(layout));
  if (impossible_.contains(key)) return false;
  try {
    Order(layout);
    return true;
  } catch (const Error&) {
    impossible_.insert(key);
    return false;
  }
}

const std::vector<StageLayers>& StepModel::Stages(int stages) {
  const auto found = stages_.find(stages);
  if (found != stages_.end()) return found->second;
  const auto& listed = config_.parallel().stage_layers();
  const std::vector<int> wanted(listed.begin(), listed.end());
  return stages_.emplace(stages, PartitionLayers(graph_, stages, wanted, config_.data().max_length())).first->second;
}

const StagePlacement& StepModel::PlacementOf(const Layout& layout) const {
  const auto key = std::tuple(layout.schedule, layout.pipeline, layout.virtual_stages);
  const auto found = placements_.find(key);
  if (found != placements_.end()) return found->second;
  const PipelineShape shape{layout.pipeline, 1, layout.virtual_stages};
  return placements_.emplace(key, MakeComputeOrder(layout.schedule, shape).placement).first->second;
}

bool StepModel::Splits(const Layout& layout) {
  try {
    Works(layout);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Once the pipeline is full its pattern repeats: three rounds show all of it.
int StepModel::Shown(const Layout& layout) const { return std::min(MicroBatches(layout), 3 * layout.pipeline); }

int StepModel::MicroBatches(const Layout& layout) const {
  const int64_t round = int64_t{layout.micro_batch} * layout.data();
  return static_cast<int>(DivideUp(config_.run().global_batch(), round));
}

const Schedule& StepModel::Table(const Layout& layout, int micro_batches) {
  const auto key = std::tuple(layout.schedule, layout.pipeline, layout.virtual_stages, micro_batches);
  const auto found = tables_.find(key);
  if (found != tables_.end()) return found->second;
  const PipelineShape shape{layout.pipeline, micro_batches, layout.virtual_stages};
  return tables_.emplace(key, MakeSchedule(layout.schedule, shape, 0)).first->second;
}

// In which passes follow each other on each rank, as if all took equally long: it decides what is alive at once.
const Timeline& StepModel::Order(const Layout& layout) {
  const int shown = Shown(layout);
  const auto key = std::tuple(layout.schedule, layout.pipeline, layout.virtual_stages, shown);
  const auto found = orders_.find(key);
  if (found != orders_.end()) return found->second;
  Timeline timeline = Simulate(Table(layout, shown), Durations{});
  for (RankTimeline& rank : timeline.ranks) rank.messages = {};
  return orders_.emplace(key, std::move(timeline)).first->second;
}

const std::vector<StepModel::Stage>& StepModel::StagesOf(const Layout& layout) {
  const std::tuple key{LayerKey{LayerLayoutOf(layout), static_cast<int>(layout.recompute)},
                       PlacementOf(layout).stages()};
  if (!sums_.empty() && key == summed_) return sums_;
  const std::vector<LayerCost>& costs = Costs(layout);
  const std::vector<LayerWork>& works = Works(layout);
  std::vector<Stage>& stages = sums_;
  stages.clear();
  summed_ = key;
  const bool reference = WantsReference(config_);
  for (const StageLayers& layers : Stages(PlacementOf(layout).stages())) {
    Stage& stage = stages.emplace_back();
    for (size_t i = layers.begin; i < layers.end; ++i) {
      stage.forward.Add(costs[i].forward, reference ? 2 : 1);  // a reference passes the same rows before
      stage.input.Add(costs[i].input);
      stage.weight.Add(costs[i].weight);
      stage.dense += static_cast<double>(works[i].dense);
      stage.experts += static_cast<double>(works[i].experts);
      stage.trained_dense += static_cast<double>(works[i].trained_dense);
      stage.trained_experts += static_cast<double>(works[i].trained_experts);
      stage.layers += 1;
    }
  }
  return stages;
}

StepModel::Stage StepModel::RankSum(const Layout& layout, const std::vector<Stage>& stages, int rank) const {
  const StagePlacement& placement = PlacementOf(layout);
  Stage sum;
  for (int chunk = 0; chunk < placement.chunks; ++chunk) {
    const Stage& stage = stages[static_cast<size_t>(placement.StageAt(rank, chunk))];
    sum.forward.Add(stage.forward);
    sum.input.Add(stage.input);
    sum.weight.Add(stage.weight);
    sum.dense += stage.dense;
    sum.experts += stage.experts;
    sum.trained_dense += stage.trained_dense;
    sum.trained_experts += stage.trained_experts;
    sum.layers += stage.layers;
  }
  return sum;
}

// Of all of a stage's parameters once: gradients reduced, values gathered.
StepModel::Exchange StepModel::ExchangeOf(const Layout& layout, const Stage& stage) const {
  const int dense_ranks = layout.data() * layout.context;
  const int expert_ranks = layout.world / (layout.expert * layout.expert_tensor * layout.pipeline);
  const double value = ElementBytes(config_), gradient = assumptions_.gradient_bytes;
  Exchange exchange;
  const auto add = [&](int ranks, int stride, double all, double trained) {
    const GroupShape shards{std::max(ranks / layout.replicas, 1), stride};
    const GroupShape copies{layout.replicas, stride * shards.size};
    exchange.reduce += (layout.zero == 0 ? 2 : 1) * links_.ReduceScatter(shards, trained * gradient) +
                       links_.AllReduce(copies, trained * gradient / shards.size);
    exchange.gather += links_.AllGather(shards, (layout.zero == 3 ? all : trained) * value);
  };
  add(dense_ranks, layout.tensor, stage.dense, stage.trained_dense);
  add(expert_ranks, layout.expert * layout.expert_tensor, stage.experts, stage.trained_experts);
  if (layout.zero == 0) exchange.gather = 0;
  return exchange;
}

double StepModel::Exposed(const Layout& layout, const Stage& stage, bool forward) const {
  if (layout.zero < 2) return 0;
  const Exchange exchange = ExchangeOf(layout, stage);
  const double gather = layout.zero == 3 ? exchange.gather : 0;
  const double moved = forward ? gather : gather + exchange.reduce;
  const double beside = forward ? stage.forward.total() : stage.input.total() + stage.weight.total();
  const double hidden = std::min(moved * (1 - 1 / std::max(stage.layers, 2.0)), beside) * assumptions_.data_overlap;
  return moved - hidden + device_.contention * hidden;
}

std::vector<Durations> StepModel::DurationsOf(const Layout& layout, const std::vector<Stage>& stages) const {
  const GroupShape pipeline{layout.pipeline, layout.world / layout.pipeline};
  const double tokens = static_cast<double>(layout.micro_batch * length_) / layout.context;
  const double bytes =
      tokens * static_cast<double>(HiddenOf(graph_)) * ElementBytes(config_) / (layout.sequence ? layout.tensor : 1);
  constexpr double kLeast = 1e-9;  // the simulation wants a time for each action
  std::vector<Durations> durations;
  for (size_t i = 0; i < stages.size(); ++i) {
    const Stage& stage = stages[i];
    if (i > 0 && stage == stages[i - 1]) {  // most stages are alike
      durations.push_back(durations.back());
      continue;
    }
    durations.push_back({.forward = std::max(stage.forward.total() + Exposed(layout, stage, true), kLeast),
                         .backward_input = std::max(stage.input.total() + Exposed(layout, stage, false), kLeast),
                         .backward_weight = std::max(stage.weight.total(), kLeast),
                         .message = links_.Message(pipeline, bytes)});
  }
  return durations;
}

double StepModel::OptimizerSeconds(const Layout& layout, const Stage& rank) const {
  const bool shards = layout.zero >= 1;
  const double dense_ranks = shards ? layout.data() * layout.context / layout.replicas : 1;
  const double expert_ranks =
      shards ? std::max(layout.world / (layout.expert * layout.expert_tensor * layout.pipeline) / layout.replicas, 1)
             : 1;
  const double share = rank.trained_dense / dense_ranks + rank.trained_experts / expert_ranks;
  const double all = rank.trained_dense + rank.trained_experts, clears = 4;
  const double rate = device_.memory_gbs * 1e9 * device_.update_efficiency;
  const double fixed = device_.step_ms * 1e-3;
  if (!layout.offload_optimizer) return fixed + (update_bytes_ * share + clears * all) / rate;
  return fixed + share * (4 + ElementBytes(config_)) / (kHostGbs * 1e9) +
         update_bytes_ * share / (kHostUpdateGbs * 1e9);
}

// Once per step, below zero 2: reductions begin while the last backward pass runs, gathers end while the next forward
// does.
double StepModel::DataSeconds(const Layout& layout, const Stage& rank) const {
  if (layout.zero >= 2) return 0;
  const Exchange exchange = ExchangeOf(layout, rank);
  const double part = 1 - 1 / std::max(rank.layers, 2.0);
  const double backward = rank.input.total() + rank.weight.total(), forward = rank.forward.total();
  const double hidden = (std::min(exchange.reduce * part, backward) + std::min(exchange.gather * part, forward)) *
                        assumptions_.data_overlap;
  return exchange.reduce + exchange.gather - hidden + device_.contention * hidden;
}

// Ranks that outnumber a host's cores take turns on them: each takes as much longer, and fills the others' waits.
void StepModel::ShareCores(const Layout& layout, StepEstimate& step) const {
  if (device_.host_cores == 0) return;
  const double ranks = std::min<double>(layout.world, device_.inside.ranks), cores = device_.host_cores;
  const double free = cores > 1 ? std::max(cores - ranks, 0.0) / (cores - 1) : 0;  // 1: one rank alone
  const double slower = std::max(ranks / cores, 1.0) / (1 + device_.host_crowding * free);
  StepParts& parts = step.parts;
  PassParts passes;
  passes.Add(parts.passes, slower);
  parts.passes = passes;
  parts.data *= slower;
  parts.optimizer *= slower;
  parts.sampling *= slower;
  const double busy = passes.total() + parts.data + parts.optimizer + parts.sampling;
  step.step_seconds = std::max(step.step_seconds * std::min(slower, 1.0), busy);
  parts.pipeline = step.step_seconds - busy;
}

StepEstimate StepModel::Time(const Layout& layout) {
  const int all = MicroBatches(layout), shown = Shown(layout);
  const std::vector<Stage>& stages = StagesOf(layout);
  const std::vector<Durations> durations = DurationsOf(layout, stages);
  const Timeline timeline = SimulateStages(Table(layout, shown), durations);
  double slowest = 0;  // of a micro batch on the busiest rank: what each further one takes
  std::vector<double> busy(static_cast<size_t>(layout.pipeline));
  const StagePlacement& placement = PlacementOf(layout);
  for (int rank = 0; rank < layout.pipeline; ++rank) {
    for (int chunk = 0; chunk < placement.chunks; ++chunk) {
      const Durations& one = durations[static_cast<size_t>(placement.StageAt(rank, chunk))];
      busy[static_cast<size_t>(rank)] += one.forward + one.backward_input + one.backward_weight;
    }
    slowest = std::max(slowest, busy[static_cast<size_t>(rank)]);
  }
  StepEstimate step;
  for (int rank = 0; rank < layout.pipeline; ++rank) {
    const Stage sum = RankSum(layout, stages, rank);
    const double passes = timeline.ranks[static_cast<size_t>(rank)].compute.back().end + (all - shown) * slowest;
    const double optimizer = OptimizerSeconds(layout, sum), data = DataSeconds(layout, sum);
    if (passes + optimizer + data <= step.step_seconds) continue;
    step.step_seconds = passes + optimizer + data;
    step.parts = {};
    for (const PassParts* pass : {&sum.forward, &sum.input, &sum.weight}) step.parts.passes.Add(*pass, all);
    const double work = step.parts.passes.total(), exchanged = all * busy[static_cast<size_t>(rank)] - work;
    step.parts.pipeline = passes - work - exchanged;
    step.parts.data = data + exchanged;
    step.parts.optimizer = optimizer;
  }
  step.parts.sampling = SamplingSeconds(layout);
  step.step_seconds += step.parts.sampling;
  ShareCores(layout, step);
  const double rows = config_.run().global_batch();
  step.tokens_per_second = rows * static_cast<double>(length_) / step.step_seconds;
  step.tflops = ModelFlops(graph_, config_.run().global_batch(), length_) / step.step_seconds / layout.world / 1e12;
  return step;
}

Timeline StepModel::Events(const Layout& layout) {
  const int shown = Shown(layout);
  return SimulateStages(Table(layout, shown), DurationsOf(layout, StagesOf(layout)));
}

std::vector<Durations> StepModel::ExchangesOf(const Layout& layout) {
  const auto exchanged = [](const PassParts& pass) { return pass.tensor + pass.context + pass.expert; };
  std::vector<Durations> exchanges;
  for (const Stage& stage : StagesOf(layout)) {
    exchanges.push_back({.forward = exchanged(stage.forward) + Exposed(layout, stage, true),
                         .backward_input = exchanged(stage.input) + Exposed(layout, stage, false),
                         .backward_weight = exchanged(stage.weight)});
  }
  return exchanges;
}

void StepModel::Check(const Layout& layout) const {
  const Config config = WithLayout(config_, layout);
  PlanRun(config, graph_, layout.world);
}

StepEstimate StepModel::Estimate(const Layout& layout) {
  Check(layout);
  StepEstimate step = Time(layout);
  step.memory_gib = device_.memory_residual * static_cast<double>(Memory(layout).device()) / kGiB;
  return step;
}

}  // namespace trireme
