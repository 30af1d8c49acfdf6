#include "session/run_plan.h"

#include "core/base/error.h"
#include "core/base/rounding.h"
#include "core/config/schema.h"
#include "core/config/unused_keys.h"
#include "core/device/cann_info.h"
#include "ops/switches.h"
#include "parallel/graph/parameters.h"
#include "session/exchange_sizes.h"

namespace trireme {
namespace {

void CheckExperts(const ParallelConfig& parallel, const LayerGraph& graph) {
  if (parallel.expert() * parallel.expert_tensor() == 1 || HasExperts(graph)) return;
  throw InputError("parallel.expert = ", parallel.expert(), ", expert_tensor = ", parallel.expert_tensor(), ": ",
                   graph.family, " has no experts to split; set both to 1");
}

void CheckRouters(const Config& config) {
  const ExpertsConfig& experts = config.experts();
  if (experts.capacity() == 0) {
    throw InputError("experts.capacity = 0 leaves no token for any expert; set it above 0, such as 1.25, or ",
                     "overflow: keep for experts without a limit");
  }
  if (experts.balance() == BALANCE_POOLED && experts.balance_coefficient() > 0 && config.parallel().pipeline() > 1) {
    throw InputError("experts.balance pooled sums the counts of all layers, which parallel.pipeline = ",
                     config.parallel().pipeline(),
                     " splits over stages; set parallel.pipeline to 1, or choose another balance");
  }
  if (experts.balance() == BALANCE_POOLED && experts.balance_coefficient() > 0 &&
      config.multi_token_prediction().depths() > 0) {
    throw InputError("experts.balance pooled is transformers' loss, which has no multi_token_prediction.depths = ",
                     config.multi_token_prediction().depths(), "; set depths to 0, or choose another balance");
  }
}

int UlyssesOf(const ParallelConfig& parallel) {
  const int context = parallel.context(), inner = parallel.ulysses();
  if (parallel.context_method() == CONTEXT_RING || context == 1) return 1;
  if (parallel.context_method() == CONTEXT_ULYSSES) return context;
  if (context % inner == 0) return inner;
  throw InputError("parallel.ulysses = ", inner, " does not divide parallel.context = ", context,
                   ", as context_method hybrid requires; choose a divisor of ", context);
}

void CheckHeads(const LayerGraph& graph, int tensor, int ulysses) {
  for (const Layer& layer : graph.layers) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    if (decoder == nullptr || decoder->attention.delta || decoder->attention.heads / tensor % ulysses == 0) continue;
    throw InputError(layer.name, ": ", decoder->attention.heads, " attention heads over parallel.tensor = ", tensor,
                     " do not divide over ", ulysses,
                     " ranks that exchange them for sequence; write context_method: ring, or hybrid with a "
                     "smaller parallel.ulysses");
  }
}

// What is not there on an NPU. Its fused attention knows no soft cap, and without it all scores would be in memory.
void CheckNpu(const LayerGraph& graph, const Config& config) {
  const bool npu = config.device() == DEVICE_NPU || (config.device() == DEVICE_AUTO && CannProvider() == "ascend");
  if (!npu) return;
  if (config.optimizer().moments() == MOMENTS_8BIT) {
    throw InputError("optimizer.moments 8bit is for devices cpu and cuda; on an npu use bf16");
  }
  for (const Layer& layer : graph.layers) {
    const DecoderSpec* decoder = DecoderOf(layer.spec);
    if (decoder == nullptr || decoder->attention.soft_cap == 0) continue;
    throw InputError("device npu: ", graph.family,
                     " caps its attention scores (attn_logit_softcapping = ", decoder->attention.soft_cap,
                     "), which the fused attention there does not; set device to cpu or cuda");
  }
}

// Declares every parameter once, so that sizes which the layout cannot split are rejected up front.
void CheckSplits(const LayerGraph& graph, const Config& config, const Grids& grids) {
  const TensorSplit split = SplitOf(config.parallel());
  for (const Layer& layer : graph.layers) {
    for (const Parameter& parameter : ParametersOf(graph, layer, split)) {
      const Placement placement(parameter.declaration, grids);
    }
  }
}

}  // namespace

TensorSplit SplitOf(const ParallelConfig& parallel) {
  return {.size = parallel.tensor(),
          .sequence = parallel.sequence(),
          .expert = parallel.expert(),
          .expert_tensor = parallel.expert_tensor()};
}

ParallelSizes SizesOf(const ParallelConfig& parallel) {
  return {.tensor = parallel.tensor(),
          .pipeline = parallel.pipeline(),
          .context = parallel.context(),
          .expert = parallel.expert(),
          .expert_tensor = parallel.expert_tensor(),
          .replicas = parallel.replicas()};
}

bool StartsAdapters(const TuningConfig& tuning) {
  return tuning.kind() == TUNING_LORA && (tuning.init() != ADAPTER_INIT_LORA || tuning.dora());
}

bool UsesStageGroup(const Config& config) {
  const OptimizerConfig& optimizer = config.optimizer();
  return optimizer.name() == "muon" || optimizer.name() == "adafactor" || optimizer.moments() == MOMENTS_8BIT ||
         StartsAdapters(config.tuning());
}

GroupPlan GroupsOf(const Config& config, const Grids& grids) {
  const bool experts = config.parallel().expert() * config.parallel().expert_tensor() > 1;
  return GroupsOf(config, grids, experts);
}

GroupPlan GroupsOf(const Config& config, const Grids& grids, bool experts) {
  const bool global = config.experts().balance() == BALANCE_GLOBAL && config.experts().balance_coefficient() > 0;
  return GroupPlan(grids, TrainingGroups({.experts = experts,
                                          .stage_statistics = (experts && global) || UsesStageGroup(config),
                                          .replicas = config.parallel().replicas() > 1,
                                          .buffer_mb = config.comm().buffer_mb()}));
}

CommOptions CommOptionsOf(const Config& config) {
  return {.connect_timeout_s = config.comm().connect_timeout_seconds(),
          .exec_timeout_s = config.comm().exec_timeout_seconds(),
          .hang_report_s = static_cast<double>(config.comm().hang_report_seconds()),
          .deterministic = config.run().deterministic()};
}

DType DTypeOf(const ModelConfig& model) { return model.dtype() == DTYPE_BF16 ? DType::kBf16 : DType::kFp32; }

Schedule RunPlan::ScheduleFor(int micro_batches) const {
  return MakeSchedule(schedule, {placement.ranks, micro_batches, virtual_stages}, zero);
}

Schedule RunPlan::ForwardScheduleFor(int micro_batches) const {
  return MakeForwardSchedule(placement, micro_batches, zero);
}

int RunPlan::MicroBatches(int64_t rows, int micro_batch) const {
  const int64_t a_round = int64_t{micro_batch} * grids.dense.Size("dp");
  return static_cast<int>(DivideUp(rows, a_round));
}

RunPlan PlanRun(const Config& config, const LayerGraph& graph, int world) {
  RefuseUnknownOperators({config.ops().off().begin(), config.ops().off().end()});
  const ParallelConfig& parallel = config.parallel();
  Grids grids = MakeGrids(world, SizesOf(parallel));
  RefuseUnusedKeys(config, "parallel.");
  CheckExperts(parallel, graph);
  CheckRouters(config);
  CheckExchange(config);
  CheckSplits(graph, config, grids);
  const int ulysses = UlyssesOf(parallel);
  CheckHeads(graph, parallel.tensor(), ulysses);
  CheckNpu(graph, config);
  const std::string& schedule = parallel.schedule();
  const StagePlacement placement =
      MakeComputeOrder(schedule, {parallel.pipeline(), 1, parallel.virtual_stages()}).placement;
  const std::vector<int> wanted(parallel.stage_layers().begin(), parallel.stage_layers().end());
  GroupPlan groups = GroupsOf(config, grids, HasExperts(graph));
  return {.grids = std::move(grids),
          .groups = std::move(groups),
          .placement = placement,
          .stages = PartitionLayers(graph, placement.stages(), wanted, config.data().max_length()),
          .schedule = schedule,
          .virtual_stages = parallel.virtual_stages(),
          .zero = parallel.zero(),
          .ulysses = ulysses,
          .row_multiple = parallel.tensor() * (parallel.context() > 1 ? 2 * parallel.context() : 1)};
}

}  // namespace trireme
