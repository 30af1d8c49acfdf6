// StepModel: how long a training step takes under a layout, before anything runs. Stage times are sums of layer costs;
// the schedule's own verified table is run as events over them. What it does not know: stragglers, waiting for data,
// clocks that fall under load.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/config.pb.h"
#include "cost/assumptions.h"
#include "cost/device.h"
#include "cost/layer_cost.h"
#include "parallel/graph/partition.h"
#include "parallel/schedule/simulate.h"
#include "train/plan/memory_plan.h"

namespace trireme {

struct StepParts {  // seconds of the rank that ends last; they add up to the step
  PassParts passes;
  double pipeline = 0;   // waiting for other stages, and for messages
  double data = 0;       // data-parallel exchanges that nothing hides
  double optimizer = 0;  // with what a step costs beside its passes
  double sampling = 0;   // of completions, before the passes of policy stages
};

// Seconds of the busiest rank; they add up to the step.
struct StepPhases {
  double sampling = 0;
  double forward = 0;    // passes before a rank's first backward pass
  double both = 0;       // forward and backward passes in turns
  double backward = 0;   // input gradients after its last forward pass,
  double weight = 0;     // and weight gradients
  double bubble = 0;     // waiting for other stages
  double optimizer = 0;  // with exchanges of gradients and parameters once per step
};

struct StepEstimate {
  double step_seconds = 0;
  double tokens_per_second = 0;  // of all ranks
  double tflops = 0;             // per rank: what the model needs, without recomputation
  double memory_gib = 0;         // of the rank that needs most
  StepParts parts;
};

// What a search varies, and everything the model asks about a layout.
struct Layout {
  int world = 1;
  int tensor = 1, pipeline = 1, context = 1, expert = 1, expert_tensor = 1;
  int ulysses = 1;
  bool sequence = true;
  int zero = 1, replicas = 1;
  std::string schedule = "1f1b";
  int virtual_stages = 1;
  Recompute recompute = RECOMPUTE_NONE;
  bool offload_optimizer = false;
  int micro_batch = 1;

  int data() const { return world / (tensor * pipeline * context); }
};

Layout LayoutOf(const Config& config, int world);
// The configuration with that layout.
Config WithLayout(Config config, const Layout& layout);
void SetLayout(Config& config, const Layout& layout);

class StepModel {
 public:
  // They outlive the model.
  StepModel(const Config& config, const LayerGraph& graph, const DeviceRates& device, const Assumptions& assumptions);

  // A layout that the sizes do not allow is an input error with the numbers.
  void Check(const Layout& layout) const;
  // The same, as far as it depends on a layer's split alone.
  bool Splits(const Layout& layout);
  // Whether the schedule takes so many micro batches.
  bool HasSchedule(const Layout& layout);

  // Without memory.
  StepEstimate Time(const Layout& layout);
  // No schedule can make this layout's step shorter.
  double LowerBound(const Layout& layout);
  // The same for all that may be sharded over its data-parallel ranks.
  double PipelineBound(const Layout& layout);
  // Nor a step of any pipeline with this split of the layers.
  double PassesBound(const Layout& layout);
  // The rank that needs most needs at least these bytes: the mean of all of a pipeline's, with one micro batch.
  double MemoryBound(const Layout& layout);
  // Of the rank that needs most.
  RankMemory Memory(const Layout& layout);
  // Both.
  StepEstimate Estimate(const Layout& layout);

  StepPhases Phases(const Layout& layout);

  int MicroBatches(const Layout& layout) const;
  const StagePlacement& PlacementOf(const Layout& layout) const;
  // A step's events: the first rounds of the pipeline, in seconds.
  Timeline Events(const Layout& layout);
  // Of each stage: seconds of a pass in which it waits for exchanges with ranks beside it.
  std::vector<Durations> ExchangesOf(const Layout& layout);

 private:
  struct Stage {
    PassParts forward, input, weight;
    double dense = 0, experts = 0;                  // parameters
    double trained_dense = 0, trained_experts = 0;  // of these
    double layers = 0;
    bool operator==(const Stage&) const = default;
  };
  struct Exchange {  // of one pipeline rank, per step
    double reduce = 0, gather = 0;
  };
  using LayerKey = std::tuple<LayerLayout, int>;

  int Shown(const Layout& layout) const;
  double SamplingSeconds(const Layout& layout);
  // As software that others wrote keeps logits and saved activations, where assumptions say so.
  void KeepAsAssumed(const Layout& layout, bool has_head, RankMemory& memory) const;
  LayerLayout LayerLayoutOf(const Layout& layout) const;
  const std::vector<LayerCost>& Costs(const Layout& layout);
  const std::vector<LayerWork>& Works(const Layout& layout);
  const std::vector<StageLayers>& Stages(int stages);
  const Schedule& Table(const Layout& layout, int micro_batches);
  const Timeline& Order(const Layout& layout);
  const Grids& GridsOf(const Config& config, int world);
  const std::vector<Stage>& StagesOf(const Layout& layout);
  const LayerElements& ElementsOf(const Layout& layout, const Grids& grids);
  double CommunicatorBytes(const Layout& layout);
  Exchange ExchangeOf(const Layout& layout, const Stage& stage) const;
  // A micro batch's own exchanges of zero 2 and 3, as far as its passes do not hide them.
  double Exposed(const Layout& layout, const Stage& stage, bool forward) const;
  std::vector<Durations> DurationsOf(const Layout& layout, const std::vector<Stage>& stages) const;
  double OptimizerSeconds(const Layout& layout, const Stage& rank) const;
  void ShareCores(const Layout& layout, StepEstimate& step) const;
  double DataSeconds(const Layout& layout, const Stage& rank) const;
  Stage RankSum(const Layout& layout, const std::vector<Stage>& stages, int rank) const;

  const Config& config_;
  const LayerGraph& graph_;
  const DeviceRates& device_;
  const Assumptions& assumptions_;
  const double update_bytes_;  // of a parameter: searches ask for it a million times
  LayerPricer pricer_;
  Links links_;
  std::vector<size_t> like_;
  size_t first_trained_;
  int64_t length_;
  Config laid_out_;  // with the layout whose memory was asked for last: a copy of all for each one would take longer
  std::map<LayerKey, std::vector<LayerCost>> costs_;
  std::map<std::tuple<int, bool, int, int>, std::vector<LayerWork>> works_;
  std::map<std::tuple<int, bool, int, int>, LayerElements> elements_;
  std::map<int, std::vector<StageLayers>> stages_;
  using PipelineKey = std::tuple<std::string, int, int, int>;  // schedule, ranks, chunks, micro batches
  std::map<PipelineKey, Schedule> tables_;
  std::map<PipelineKey, Timeline> orders_;
  std::set<PipelineKey> impossible_;  // schedules that do not take so many micro batches
  mutable std::map<std::tuple<std::string, int, int>, StagePlacement> placements_;
  std::tuple<LayerKey, int> summed_;  // what the sums are of: searches ask for the same again and again
  std::vector<Stage> sums_;
  std::map<std::vector<int>, double> communicators_;
  std::map<std::vector<int>, Grids> grids_;
  std::map<LayerKey, double> saved_;  // bytes of all layers
  struct Held {                       // parameters of all layers
    double dense = 0, experts = 0, trained_dense = 0, trained_experts = 0;
  };
  std::map<std::tuple<int, bool, int, int>, Held> held_;
};

}  // namespace trireme
