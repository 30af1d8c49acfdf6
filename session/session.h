// Session: a model assembled from a configuration and a job: graph, plan, groups, weights, and the passes
// through it. Opened once; trainer, evaluator and generator borrow it, so that a process holds its weights
// once. Knows neither data nor optimizer. A process has one at a time, since it owns the device; OpenOther
// adds another model (stages/other_models.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/tensor_source.h"
#include "core/comm/job.h"
#include "core/config.pb.h"
#include "parallel/executor/executor.h"
#include "parallel/executor/model.h"
#include "session/run_plan.h"
#include "session/site.h"
#include "stages/stage.h"

namespace trireme {

class Trace;
struct OtherModel;
struct ValueSources;

struct SessionOptions {
  bool trained = true;              // false: weights only, without gradients
  std::optional<DType> dtype = {};  // of the computation; by default the configuration's
  Trace* trace = nullptr;
};

// What a caller has already planned.
struct PlannedModel {
  LayerGraph graph;
  RunPlan plan;
};
PlannedModel PlanModel(const Config& config, int world);
// With this head, for another use than the stage's.
PlannedModel PlanModel(const Config& config, int world, HeadKind head);

class Session {
 public:
  // Collective. Weights are allocated but not initialised. `job` outlives it.
  static std::unique_ptr<Session> Open(const Config& config, Job& job, const SessionOptions& options = {});
  Session(const Config& config, PlannedModel model, Job& job, const SessionOptions& options);
  // Another model on the same devices, without tuning, or the same one with weights of its own, which are zero; with
  // gradients if it is trained; with the same groups, or under a layout of its own. This one outlives it. Collective.
  std::unique_ptr<Session> OpenOther(const OtherModel& model) const;

  // Initial weights, once, before the first pass: those of config.model.path with the adapter named in
  // config.tuning, or with model.init random drawn from run.seed. Collective.
  void TakeWeights();
  // The same with these files of an adapter; nullptr: none, adapters are drawn, or start from the weights beside them:
  // as `initial` has them, if it is not the first start.
  void TakeWeights(const TensorSource* adapter, const TensorSource* initial = nullptr);
  // The same from elsewhere: an empty directory draws them; without files of an adapter adapters are drawn.
  void LoadWeights(const std::string& directory, const TensorSource* adapter = nullptr,
                   const TensorSource* initial = nullptr);
  void DrawWeights(uint64_t seed, const TensorSource* adapter = nullptr, const TensorSource* initial = nullptr);

  // All micro batches of a batch through the pipeline; collective over it. The result is in the batch, on
  // the head's ranks.
  void RunForwardBackward(PassBatch& batch);
  void RunForward(PassBatch& batch);  // nothing is saved
  // One micro batch, stage by stage, for generation.
  void Infer(PassBatch& batch) { model_->Infer(batch, groups().Get("pp")); }

  // The sums of `names` in a result, over all ranks, together with `extra`. Collective.
  NamedSums ReduceSums(const PassResult& result, const std::vector<std::string>& names, const NamedSums& extra = {});

  const Config& config() const { return config_; }
  const LayerGraph& graph() const { return graph_; }
  const RunPlan& plan() const { return plan_; }
  Job& job() const { return job_; }
  Model& model() { return *model_; }
  CommunicatorSet& groups() const { return *site_->groups; }
  Communicator& world() const { return groups().Get("world"); }
  const TensorDevice& tensors() const { return site_->tensors; }
  int Coordinate(const std::string& axis) const { return plan_.grids.dense.Coordinate(job_.rank(), axis); }

 private:
  Session(const Config& config, PlannedModel model, Job& job, std::shared_ptr<Site> site,
          const SessionOptions& options);
  void FillWeights(ValueSources sources, const TensorSource* initial);
  using Executors = std::map<int, std::unique_ptr<Executor>>;  // by micro batches per step
  Executor& ExecutorFor(int micro_batches, bool backward);

  const Config config_;
  const LayerGraph graph_;
  const RunPlan plan_;
  Job& job_;
  Trace* trace_;
  const std::optional<DType> dtype_;  // of the computation, where it is not the configuration's
  const std::shared_ptr<Site> site_;
  std::unique_ptr<Model> model_;
  Executors executors_, forward_executors_;
};

}  // namespace trireme
