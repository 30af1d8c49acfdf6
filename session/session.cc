#include "session/session.h"

#include <utility>

#include "core/base/error.h"
#include "core/tensor/dtype.h"
#include "parallel/graph/tuning.h"
#include "session/load_weights.h"
#include "session/model_graph.h"
#include "session/model_options.h"
#include "session/tuning.h"
#include "session/value_head.h"
#include "stages/other_models.h"
#include "stages/retrieval_check.h"

namespace trireme {
namespace {

PlannedModel WithStoredProducts(PlannedModel model) {
  StoreCastProducts(model.graph);
  return model;
}

}  // namespace

PlannedModel PlanModel(const Config& config, int world) { return PlanModel(config, world, HeadOf(config)); }

PlannedModel PlanModel(const Config& config, int world, HeadKind head) {
  RefuseUnsupported(config);
  LayerGraph graph = ReadGraph(config, head);
  RunPlan plan = PlanRun(config, graph, world);
  return {std::move(graph), std::move(plan)};
}

std::unique_ptr<Session> Session::Open(const Config& config, Job& job, const SessionOptions& options) {
  return std::make_unique<Session>(config, PlanModel(config, job.world()), job, options);
}

Session::Session(const Config& config, PlannedModel model, Job& job, const SessionOptions& options)
    : Session(config, options.trained ? model : WithStoredProducts(model), job,
              std::make_shared<Site>(config, model.plan, job, options.trace), options) {}

Session::Session(const Config& config, PlannedModel model, Job& job, std::shared_ptr<Site> site,
                 const SessionOptions& options)
    : config_(config),
      graph_(std::move(model.graph)),
      plan_(std::move(model.plan)),
      job_(job),
      trace_(options.trace),
      dtype_(options.dtype),
      site_(std::move(site)) {
  if (graph_.packing == kFp8Storage) tensors().RequireFp8();
  ModelOptions how = ModelOptionsOf(config_, graph_);
  if (options.dtype) how.type = ToTorch(*options.dtype);
  how.device = tensors().torch();
  how.ulysses = plan_.ulysses;
  how.trained = options.trained;
  // Without gradients and optimizer states there is nothing to shard but weights.
  if (!options.trained && how.zero < 3) how.zero = 0;
  model_ = std::make_unique<Model>(graph_, ModelLayout{plan_.grids, job_.rank(), plan_.placement, plan_.stages},
                                   groups(), how);
}

std::unique_ptr<Session> Session::OpenOther(const OtherModel& model) const {
  const Config config = ConfigOf(config_, model);
  PlannedModel planned = model.directory.empty() ? PlannedModel{graph_, PlanRun(config, graph_, job_.world())}
                                                 : PlanModel(config, job_.world(), model.head);
  if (!model.layout && HasExperts(planned.graph) != HasExperts(graph_)) {
    throw InputError(model.directory, ": a ", planned.graph.family, " model beside a ", graph_.family,
                     " model: only one of them has experts, and both share a layout; use one of the same architecture");
  }
  auto site = model.layout ? std::make_shared<Site>(*site_, config, planned.plan, job_, trace_) : site_;
  return std::unique_ptr<Session>(new Session(config, std::move(planned), job_, std::move(site),
                                              {.trained = model.trained, .dtype = dtype_, .trace = trace_}));
}

void Session::TakeWeights() {
  const auto adapter = OpenAdapter(config_.tuning(), graph_);
  TakeWeights(adapter.get());
}

void Session::TakeWeights(const TensorSource* adapter, const TensorSource* initial) {
  if (config_.model().init() == MODEL_INIT_RANDOM) {
    return DrawWeights(static_cast<uint64_t>(config_.run().seed()), adapter, initial);
  }
  LoadWeights(config_.model().path(), adapter, initial);
}

void Session::LoadWeights(const std::string& directory, const TensorSource* adapter, const TensorSource* initial) {
  const std::unique_ptr<ValueHead> value_head = graph_.drawn.empty() ? nullptr : FindValueHead(config_);
  FillWeights({.directory = directory,
               .seed = static_cast<uint64_t>(config_.run().seed()),
               .adapter = adapter,
               .value_head = value_head.get()},
              initial);
}

void Session::DrawWeights(uint64_t seed, const TensorSource* adapter, const TensorSource* initial) {
  FillWeights({.seed = seed, .adapter = adapter}, initial);
}

void Session::FillWeights(ValueSources sources, const TensorSource* initial) {
  std::optional<AdapterStart> start;
  if (sources.adapter == nullptr && StartsAdapters(config_.tuning())) {
    start.emplace(AdapterStart{.adapter = *graph_.adapter,
                               .stage = groups().Get("stage"),
                               .rank = job_.rank(),
                               .seed = sources.seed,
                               .initial = initial});
    sources.start = &*start;
  }
  FillBuckets(model_->buckets(), graph_, job_.rank(), sources);
}

Executor& Session::ExecutorFor(int micro_batches, bool backward) {
  std::unique_ptr<Executor>& executor = (backward ? executors_ : forward_executors_)[micro_batches];
  if (!executor) {
    const Schedule schedule = backward ? plan_.ScheduleFor(micro_batches) : plan_.ForwardScheduleFor(micro_batches);
    executor = std::make_unique<Executor>(schedule, model_->chunks(), groups().Get("pp"), trace_);
  }
  return *executor;
}

void Session::RunForwardBackward(PassBatch& batch) {
  model_->SetBatches(batch);
  ExecutorFor(batch.size(), /*backward=*/true).Run();
}

void Session::RunForward(PassBatch& batch) {
  model_->SetBatches(batch);
  ExecutorFor(batch.size(), /*backward=*/false).Run();
}

// The head's ranks have the sums, identical on each tensor-parallel rank: the first of them contributes.
NamedSums Session::ReduceSums(const PassResult& result, const std::vector<std::string>& names, const NamedSums& extra) {
  return result.ReduceSums(names, /*speaks=*/Coordinate("tp") == 0, extra, world(), tensors().torch());
}

}  // namespace trireme
