// Everything but the communicators is the same on all ranks of a pipeline position.
#include "train/plan/memory_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "core/base/rounding.h"
#include "core/device/cann_info.h"
#include "core/packing/packed_parts.h"
#include "parallel/experts/dispatch_plan.h"
#include "parallel/graph/like_layers.h"
#include "parallel/graph/parameters.h"
#include "parallel/graph/tuning.h"
#include "parallel/sharding/optimizers.h"
#include "session/exchange_sizes.h"
#include "session/run_plan.h"
#include "stages/other_models.h"
#include "train/plan/activations.h"
#include "train/plan/other_graphs.h"

namespace trireme {
namespace {

constexpr int64_t kFp32Bytes = 4;
constexpr int64_t kMiB = int64_t{1} << 20;

// The causal mask of the fused attention on npu: 2048 x 2048 of bool for rows of any length.
constexpr int64_t kAttentionMaskBytes = 2048 * 2048;

int64_t Sum(const std::vector<int64_t>& values) { return std::accumulate(values.begin(), values.end(), int64_t{0}); }

// The current layer and its neighbour, which is being gathered or still being reduced.
int64_t TwoLargest(const std::vector<int64_t>& values) {
  int64_t largest = 0, next = 0;
  for (const int64_t value : values) {
    next = std::max(next, std::min(largest, value));
    largest = std::max(largest, value);
  }
  return largest + next;
}

class Planner {
 public:
  explicit Planner(const MemoryInputs& inputs)
      : in_(inputs),
        parallel_(inputs.config.parallel()),
        recompute_(inputs.config.memory().recompute()),
        counted_(inputs.elements != nullptr
                     ? LayerElements{}
                     : CountElements(inputs.graph, SplitOf(inputs.config.parallel()), inputs.grids)),
        elements_(inputs.elements != nullptr ? *inputs.elements : counted_),
        like_(elements_.like),
        others_(OtherModels(inputs.config)) {
    const Config& config = inputs.config;
    const int64_t tokens = int64_t{config.run().micro_batch()} * config.data().max_length();
    shape_ = {.tokens = DivideUp(tokens, parallel_.context()),
              .tensor = parallel_.tensor(),
              .sequence = parallel_.sequence(),
              .expert_tensor = parallel_.expert_tensor(),
              .element_bytes = config.model().dtype() == DTYPE_FP32 ? kFp32Bytes : 2,
              .qkv_once = inputs.cuda,
              .logit_bytes = inputs.cuda ? kGpuLogitBytes : kLogitBytes};
    if (ExpectsExchange(config, inputs.npu)) shape_.expert_room = RoomOfExperts();
  }

  RankMemory Position(int pipeline_rank) const {
    const std::vector<size_t> layers = LayersOn(pipeline_rank);
    RankMemory memory = StatesOf(layers);
    PlanActivations(pipeline_rank, memory);
    if (in_.stages.at(0).begin == 0 && in_.placement.SiteOf(0).rank == pipeline_rank) {
      memory.host += int64_t{in_.config.memory().vision_features_mb()} << 20;  // where the tower is
    }
    for (const OtherModel& model : others_) {
      if (model.of_samplings) continue;  // train/plan/sampling_plan.h counts it
      model.trained ? AddTrained(model, memory) : AddFrozen(model, pipeline_rank, memory);
    }
    if (!in_.npu || memory.activations == 0) memory.workspace = 0;
    return memory;
  }

 private:
  // What follows from the kinds of its layers alone. The ranks in the middle of a pipeline are alike.
  RankMemory StatesOf(const std::vector<size_t>& layers) const {
    std::vector<size_t> kinds;
    for (const size_t layer : layers) kinds.push_back(like_[layer]);
    const auto [at, is_new] = states_.try_emplace(std::move(kinds));
    if (is_new) at->second = CountStates(layers);
    return at->second;
  }

  RankMemory CountStates(const std::vector<size_t>& layers) const {
    RankMemory memory;
    const int64_t dense = ShardRanks(in_.grids, GridKind::kDense);
    const int64_t experts = ShardRanks(in_.grids, GridKind::kExpert);
    for (const bool trained : {false, true}) {
      AddStates(elements_.dense[trained], dense, trained, layers, memory);
      AddStates(elements_.experts[trained], experts, trained, layers, memory);
    }
    AddPacked(layers, memory);
    AddTemporaries(layers, memory);
    return memory;
  }

  void AddTemporaries(const std::vector<size_t>& layers, RankMemory& memory) const {
    int64_t of_experts = 0, of_mlp = 0;
    std::set<size_t> kinds;
    for (const size_t layer : layers) {
      if (!kinds.insert(like_[layer]).second) continue;
      memory.logits = std::max(memory.logits, LogitsBytes(in_.graph.layers[layer], shape_));
      of_experts = std::max(of_experts, ExpertTemporaryBytes(in_.graph.layers[layer], shape_));
      of_mlp = std::max(of_mlp, MlpTemporaryBytes(in_.graph.layers[layer], shape_));
    }
    memory.values += DecodedBytes(layers, memory.logits);
    memory.workspace = kAttentionMaskBytes + std::max({of_experts, of_mlp - memory.logits, int64_t{0}});
  }

  // Of the exchange that brings their tokens, relative to an even load.
  double RoomOfExperts() const {
    for (const Layer& layer : in_.graph.layers) {
      const DecoderSpec* decoder = DecoderOf(layer.spec);
      if (decoder == nullptr || !decoder->experts) continue;
      const int64_t even = shape_.ExpertRows(decoder->experts->router.top_k) / parallel_.expert();
      return static_cast<double>(RoomFor(even)) / static_cast<double>(std::max<int64_t>(even, 1));
    }
    return 1;
  }

  // The largest matrix that is decoded at once: of experts one.
  int64_t LargestPacked(const std::vector<size_t>& layers) const {
    int64_t most = 0;
    if (!in_.graph.packing) return most;
    for (const size_t layer : layers) {
      for (const Parameter& parameter : ParametersOf(in_.graph, in_.graph.layers[layer], SplitOf(parallel_))) {
        if (!parameter.packed && !parameter.cast_to_fp8) continue;
        const Shape shape = Placement(parameter.declaration, in_.grids).LocalShape();
        most = std::max(most, shape[shape.size() - 2] * shape.back());
      }
    }
    return most;
  }

  const StageLayers& StageAt(int pipeline_rank, int chunk) const {
    return in_.stages.at(in_.placement.StageAt(pipeline_rank, chunk));
  }

  // Layers with parameters here: also a copy of the embedding if another rank reuses it.
  std::vector<size_t> LayersOn(int pipeline_rank) const {
    std::vector<size_t> layers;
    for (int chunk = 0; chunk < in_.placement.chunks; ++chunk) {
      const StageLayers& stage = StageAt(pipeline_rank, chunk);
      for (size_t layer = stage.begin; layer < stage.end; ++layer) layers.push_back(layer);
    }
    const size_t embedding = EmbeddingIndex(in_.graph);
    const bool has_embedding = std::count(layers.begin(), layers.end(), embedding) > 0;
    const bool has_head = std::count(layers.begin(), layers.end(), in_.graph.layers.size() - 1) > 0;
    if (UsesEmbeddingAgain(in_.graph) && has_head && !has_embedding) layers.push_back(embedding);
    return layers;
  }

  // For one grid's parameters, which `data` ranks replicate.
  void AddStates(const std::vector<int64_t>& of_layer, int64_t data, bool trained, const std::vector<size_t>& layers,
                 RankMemory& memory) const {
    std::vector<int64_t> elements;
    for (size_t layer : layers) elements.push_back(of_layer[layer]);
    const int zero = data > 1 ? parallel_.zero() : 0;  // with a single rank its share is everything
    const int64_t all = Sum(elements), share = zero >= 1 ? DivideUp(all, data) : all;
    const int64_t passing = std::min(TwoLargest(elements), all);
    const bool offload = in_.config.memory().offload_optimizer();
    const OptimizerConfig& optimizer = in_.config.optimizer();
    const bool narrow = shape_.element_bytes < kFp32Bytes, any_masters = optimizer.masters() != MASTERS_NONE;
    const bool split_masters = narrow && optimizer.masters() == MASTERS_SPLIT;
    const int64_t master_bytes = any_masters && !split_masters ? kFp32Bytes : shape_.element_bytes;
    const int64_t moment_bytes = optimizer.moments() == MOMENTS_BF16   ? kFp32Bytes / 2
                                 : optimizer.moments() == MOMENTS_8BIT ? 1
                                                                       : kFp32Bytes;
    const bool separate_masters = offload || (narrow && any_masters);
    const bool waits = zero == 3 && in_.config.memory().offload_parameters() && (!trained || separate_masters);
    const int64_t kept = waits ? DivideUp(passing, data) : share;  // of those that wait only what is being gathered
    memory.values += shape_.element_bytes * (zero == 3 ? kept + passing : all);
    memory.host += waits ? shape_.element_bytes * share : 0;
    if (!trained) return;
    // A reduction cannot write into what it reads: the share's sum has its own memory.
    const bool in_backward = optimizer.update() == UPDATE_IN_BACKWARD;
    memory.gradients += kFp32Bytes * (in_backward ? passing : zero == 0 ? all : share + (zero == 1 ? all : passing));
    const int64_t states = static_cast<int64_t>(OptimizerStates(in_.config.optimizer().name()).size());
    const int64_t copies =
        (optimizer.ema() > 0 ? 1 : 0) + (KeepsInitial(in_.graph) ? 1 : 0);  // of the weights, in fp32
    const int64_t masters = separate_masters ? master_bytes * share : 0;
    const int64_t moments = (states * moment_bytes + copies * kFp32Bytes) * share;
    memory.masters += offload ? 0 : masters;
    memory.moments += offload ? 0 : moments;
    memory.host += offload || in_.config.rl().offload_optimizer() ? masters + moments : 0;
  }

  // Packed weights. Gathered are whole layers: what AddStates counts of their
  // other frozen weights is the two largest layers' without these.
  void AddPacked(const std::vector<size_t>& layers, RankMemory& memory) const {
    for (const GridKind grid : {GridKind::kDense, GridKind::kExpert}) {
      const bool of_experts = grid == GridKind::kExpert;
      std::vector<int64_t> bytes, others, together;
      for (const size_t layer : layers) {
        bytes.push_back(elements_.packed[of_experts ? 1 : 0][layer]);
        others.push_back(shape_.element_bytes * (of_experts ? elements_.experts : elements_.dense)[false][layer]);
        together.push_back(bytes.back() + others.back());
      }
      const int64_t data = ShardRanks(in_.grids, grid), all = Sum(bytes);
      const bool shards = data > 1 && parallel_.zero() == 3;
      memory.values += shards ? DivideUp(all, data) + TwoLargest(together) - TwoLargest(others) : all;
    }
  }

  // What a packed weight is decoded into. The host keeps that memory; on a device it is gone when the logits come.
  int64_t DecodedBytes(const std::vector<size_t>& layers, int64_t logits) const {
    // Of e4m3 a GPU turns the codes themselves.
    const bool codes = in_.cuda && in_.graph.packing == kFp8Storage && shape_.element_bytes < kFp32Bytes;
    const int64_t room = (codes ? 1 : shape_.element_bytes) * LargestPacked(layers);
    return in_.npu || in_.cuda ? std::max<int64_t>(room - logits, 0) : room;
  }

  // All states of a model that is trained beside the run's own, whose layers are others, as if all stages had the same
  // of them. Its passes come after the run's own, whose activations are gone by then.
  void AddTrained(const OtherModel& model, RankMemory& memory) const {
    const LayerElements theirs = CountElements(GraphOf(in_.config, model), SplitOf(parallel_), in_.grids);
    std::vector<int64_t> dense, experts;
    std::vector<size_t> layers;
    for (size_t i = 0; i < theirs.like.size(); ++i) {
      layers.push_back(i);
      dense.push_back(DivideUp(theirs.dense[false][i] + theirs.dense[true][i], parallel_.pipeline()));
      experts.push_back(DivideUp(theirs.experts[false][i] + theirs.experts[true][i], parallel_.pipeline()));
    }
    const Grids& grids = in_.grids;
    AddStates(dense, ShardRanks(grids, GridKind::kDense), /*trained=*/true, layers, memory);
    AddStates(experts, ShardRanks(grids, GridKind::kExpert), /*trained=*/true, layers, memory);
  }

  // A frozen model's values. One that leaves the device before the run's own pass shares its memory with the
  // activations.
  void AddFrozen(const OtherModel& model, int pipeline_rank, RankMemory& memory) const {
    const int64_t bytes = model.alike    ? AlikeBytes(model, LayersOn(pipeline_rank))
                          : model.layout ? BytesElsewhere(model)
                                         : BytesBeside(model);
    const bool leaves = model.offload || in_.config.preference().precompute_ref_log_probs();
    memory.values += leaves ? std::max<int64_t>(bytes - memory.activations, 0) : bytes;
    memory.host += model.offload ? bytes : 0;
  }

  bool Shards(const OtherModel& model, int64_t data) const {
    return data > 1 && (parallel_.zero() == 3 || model.shard);
  }

  // Of the run's own layers.
  int64_t AlikeBytes(const OtherModel& model, const std::vector<size_t>& layers) const {
    int64_t bytes = 0;
    for (const bool trained : {false, true}) {
      for (const GridKind grid : {GridKind::kDense, GridKind::kExpert}) {
        std::vector<int64_t> elements;
        for (const size_t layer : layers) {
          elements.push_back((grid == GridKind::kDense ? elements_.dense : elements_.experts)[trained][layer]);
        }
        const int64_t data = ShardRanks(in_.grids, grid), all = Sum(elements);
        bytes += shape_.element_bytes *
                 (Shards(model, data) ? DivideUp(all, data) + std::min(TwoLargest(elements), all) : all);
      }
    }
    return bytes;
  }

  // Of other layers under the run's layout, as if all ranks had the same of them.
  int64_t BytesBeside(const OtherModel& model) const {
    const int64_t data = ShardRanks(in_.grids, GridKind::kDense);
    const int64_t parameters = CountParameters(GraphOf(in_.config, model), /*trained_only=*/false);
    return shape_.element_bytes * parameters /
           (int64_t{parallel_.tensor()} * parallel_.pipeline() * (Shards(model, data) ? data : 1));
  }

  // The same under a layout of its own, with the weight of its head, which is brought to the run's own ranks.
  int64_t BytesElsewhere(const OtherModel& model) const {
    const ParallelConfig& layout = *model.layout;
    const Grids grids = MakeGrids(in_.grids.world(), SizesOf(layout));
    const LayerGraph graph = GraphOf(in_.config, model);
    int64_t elements = 0;
    for (const Layer& layer : graph.layers) {
      for (const Parameter& parameter : ParametersOf(graph, layer, SplitOf(layout))) {
        const int64_t data = model.shard ? ShardRanks(grids, parameter.declaration.grid) : 1;
        elements += DivideUp(Elements(Placement(parameter.declaration, grids).LocalShape()), data);
      }
    }
    const int64_t head = DivideUp(VocabularyOf(graph), parallel_.tensor()) * HiddenOf(graph);
    return shape_.element_bytes * (DivideUp(elements, layout.pipeline()) + head);
  }

  // Of one of the graph's layers: with memory.recompute_every the others save all (parallel/executor/model.h).
  Recompute RecomputeOf(size_t layer) const {
    const auto every = static_cast<size_t>(in_.config.memory().recompute_every());
    const size_t embedding = EmbeddingIndex(in_.graph);
    const bool skipped = recompute_ == RECOMPUTE_FULL && layer > embedding && (layer - embedding - 1) % every != 0;
    return skipped ? RECOMPUTE_NONE : recompute_;
  }

  // Each context-parallel rank runs the tower on all images of its rows.
  ActivationShape ShapeIn(const Layer& layer) const {
    ActivationShape shape = shape_;
    if (TowerOf(layer.spec) != nullptr) shape.tokens *= parallel_.context();
    return shape;
  }

  struct LayerBytes {  // of one micro batch
    int64_t saved = 0, on_host = 0, deferred = 0, remade = 0;
  };

  LayerBytes BytesOf(size_t index) const {
    const Recompute recompute = RecomputeOf(index);
    const auto [at, is_new] = bytes_.try_emplace({like_[index], recompute});
    if (is_new) at->second = ComputeBytes(in_.graph.layers[index], recompute);
    return at->second;
  }

  LayerBytes ComputeBytes(const Layer& layer, Recompute recompute) const {
    const ActivationShape shape = ShapeIn(layer);
    const int64_t statistics = in_.npu ? AttentionStatisticsBytes(layer, shape) : 0;
    const int64_t adapters = (in_.npu ? LowRankBytes(layer, shape) : 0) + MagnitudeBytes(in_.graph, layer, shape);
    const bool again = recompute != RECOMPUTE_NONE;  // with the attention that they belong to
    const bool all_again = recompute == RECOMPUTE_FULL;
    const bool leaves = all_again && in_.config.memory().offload_activations() && DecoderOf(layer.spec) != nullptr;
    const int64_t input = SavedActivationBytes(layer, recompute, shape);
    LayerBytes bytes;
    (leaves ? bytes.on_host : bytes.saved) += input;
    bytes.saved += (again ? 0 : statistics) + (all_again ? 0 : adapters);
    bytes.deferred = DeferredBytes(layer, recompute, shape);
    bytes.remade = RecomputedActivationBytes(layer, recompute, shape) + (again ? statistics : 0) +
                   (all_again ? adapters : 0) + (leaves ? input : 0);
    return bytes;
  }

  void PlanActivations(int pipeline_rank, RankMemory& memory) const {
    const size_t first = FirstTrained(in_.graph);
    std::vector<int64_t> saved(in_.placement.chunks, 0), deferred = saved, on_host = saved;
    int64_t remade = 0;
    for (int chunk = 0; chunk < in_.placement.chunks; ++chunk) {
      const StageLayers& stage = StageAt(pipeline_rank, chunk);
      for (size_t i = std::max<size_t>(stage.begin, first); i < stage.end; ++i) {
        const LayerBytes bytes = BytesOf(i);
        saved[chunk] += bytes.saved;
        on_host[chunk] += bytes.on_host;
        deferred[chunk] += bytes.deferred;
        remade = std::max(remade, bytes.remade);
      }
    }
    memory.activations = PeakOf(pipeline_rank, saved, deferred) + remade;
    if (Sum(on_host) > 0) memory.host += PeakOf(pipeline_rank, on_host, std::vector<int64_t>(on_host.size(), 0));
  }

  // Simulates the rank's compute: a micro batch is alive on a chunk from its forward to its weight gradient. One
  // whose weight gradient is left for later holds more from its backward on.
  int64_t PeakOf(int pipeline_rank, const std::vector<int64_t>& saved, const std::vector<int64_t>& deferred) const {
    int64_t alive = 0, peak = 0;
    for (const TimedAction& timed : in_.timeline.ranks.at(pipeline_rank).compute) {
      const auto [kind, chunk] = std::pair(timed.action.kind, timed.action.chunk);
      if (kind == ActionKind::kForward) alive += saved[chunk];
      if (kind == ActionKind::kBackwardInput) alive += deferred[chunk];
      peak = std::max(peak, alive);
      if (timed.action.makes_weight_gradient()) alive -= saved[chunk];
      if (kind == ActionKind::kBackwardWeight) alive -= deferred[chunk];
    }
    return peak;
  }

  const MemoryInputs& in_;
  const ParallelConfig& parallel_;
  Recompute recompute_;
  const LayerElements counted_;  // unless the caller has counted them
  const LayerElements& elements_;
  const std::vector<size_t>& like_;  // for each layer the first one that is alike
  const std::vector<OtherModel> others_;
  ActivationShape shape_;
  mutable std::map<std::pair<size_t, Recompute>, LayerBytes> bytes_;  // by kind of layer
  mutable std::map<std::vector<size_t>, RankMemory> states_;          // by the kinds of a rank's layers
};

}  // namespace

bool PlansForNpu(const Config& config) {
  return config.device() == DEVICE_NPU || (config.device() == DEVICE_AUTO && CannProvider() == "ascend");
}

bool PlansForCuda(const Config& config) {
  return config.device() == DEVICE_CUDA || (config.device() == DEVICE_AUTO && CannProvider() == "cuda");
}

std::vector<RankMemory> PlanPositions(const MemoryInputs& inputs) {
  const Planner planner(inputs);
  std::vector<RankMemory> positions;
  for (int rank = 0; rank < inputs.placement.ranks; ++rank) positions.push_back(planner.Position(rank));
  return positions;
}

std::vector<RankMemory> PlanMemory(const MemoryInputs& inputs) {
  const std::vector<RankMemory> positions = PlanPositions(inputs);
  const std::vector<int> communicators_mb = inputs.groups.DeviceMemoryMb();
  std::vector<RankMemory> ranks;
  for (int rank = 0; rank < inputs.grids.world(); ++rank) {
    ranks.push_back(positions[inputs.grids.dense.Coordinate(rank, "pp")]);
    ranks.back().communicators = communicators_mb[rank] * kMiB;
  }
  return ranks;
}

}  // namespace trireme
