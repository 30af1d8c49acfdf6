#include "train/trainer.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

#include "core/base/random.h"
#include "core/base/stop_signals.h"
#include "core/tensor/dtype.h"
#include "parallel/tensor/collectives.h"
#include "train/load_weights.h"

namespace trireme {
namespace {

Keep KeepOf(Recompute recompute) {
  switch (recompute) {
    case RECOMPUTE_NONE:
      return Keep::kAll;
    case RECOMPUTE_SELECTIVE:
      return Keep::kSelected;
    case RECOMPUTE_FULL:
      return Keep::kLayerInputs;
  }
  return Keep::kAll;
}

AdamWOptions AdamWOf(const Config& config, const TensorDevice& tensors) {
  const OptimizerConfig& optimizer = config.optimizer();
  return {.beta1 = optimizer.beta1(),
          .beta2 = optimizer.beta2(),
          .eps = optimizer.eps(),
          .weight_decay = optimizer.weight_decay(),
          .clip = optimizer.clip(),
          .offload = config.memory().offload_optimizer(),
          .device = tensors.torch()};
}

BalanceOver BalanceOf(const ExpertsConfig& experts) {
  if (experts.balance_coefficient() == 0) return BalanceOver::kNothing;
  switch (experts.balance()) {
    case BALANCE_SEQUENCE:
      return BalanceOver::kSequence;
    case BALANCE_BATCH:
      return BalanceOver::kBatch;
    case BALANCE_GLOBAL:
      return BalanceOver::kGlobal;
    case BALANCE_POOLED:
      return BalanceOver::kPooled;
  }
  return BalanceOver::kNothing;
}

RouterOptions RouterOf(const ExpertsConfig& experts, const LayerGraph& graph) {
  const ExpertOverflow overflow = experts.overflow() == OVERFLOW_DROP  ? ExpertOverflow::kDrop
                                  : experts.overflow() == OVERFLOW_PAD ? ExpertOverflow::kPad
                                                                       : ExpertOverflow::kKeep;
  return {.balance = BalanceOf(experts),
          .balance_coefficient = experts.balance_coefficient(),
          .z_coefficient = experts.z_coefficient(),
          .overflow = overflow,
          .capacity = experts.capacity(),
          .all_gather = experts.dispatch() == DISPATCH_ALL_GATHER,
          .layers = static_cast<int64_t>(ExpertLayers(graph).size())};
}

}  // namespace

Trainer::Trainer(const Config& config, const LayerGraph& graph, const RunPlan& plan, Job& job, DType dtype,
                 Trace* trace)
    : graph_(graph),
      plan_(plan),
      job_(job),
      micro_batch_(config.run().micro_batch()),
      seed_(static_cast<uint64_t>(config.run().seed())),
      global_batch_(config.run().global_batch()),
      hidden_dropout_(config.tuning().hidden_dropout()),
      depths_(std::get<HeadSpec>(graph.layers.back().spec).depths),
      trace_(trace),
      site_(config, plan, job, trace) {
  model_ = std::make_unique<Model>(graph, ModelLayout{plan_.grids, job.rank(), plan_.placement, plan_.stages},
                                   *site_.groups,
                                   ModelOptions{.type = ToTorch(dtype),
                                                .device = site_.tensors.torch(),
                                                .zero = config.parallel().zero(),
                                                .sequence = config.parallel().sequence(),
                                                .keep = KeepOf(config.memory().recompute()),
                                                .ulysses = plan_.ulysses,
                                                .hidden_dropout = config.tuning().hidden_dropout(),
                                                .router = RouterOf(config.experts(), graph)});
  optimizer_ = std::make_unique<ShardedOptimizer>(
      model_->buckets(),
      OptimizerGroups{.tensor = site_.groups->Get("tp"),
                      .world = site_.groups->Get("world"),
                      .embedding = model_->tied_embedding(),
                      .experts = HasExperts(graph) ? &site_.groups->Get("etp-ep") : nullptr,
                      .expert_tensor = plan_.grids.expert.Size("etp")},
      job, AdamWOf(config, site_.tensors));
}

void Trainer::LoadWeights(const std::string& directory, const TensorSource* adapter) {
  FillBuckets(model_->buckets(), graph_, job_.rank(),
              {.directory = directory, .seed = seed_, .adapter = adapter});
}

void Trainer::DrawWeights(uint64_t seed, const TensorSource* adapter) {
  FillBuckets(model_->buckets(), graph_, job_.rank(), {.seed = seed, .adapter = adapter});
}

// A seed for each update: others are dropped than before, and again in the same way where a run is repeated.
std::optional<uint64_t> Trainer::DropoutSeed() const {
  const bool adapter = graph_.adapter && graph_.adapter->dropout > 0;
  if (!adapter && hidden_dropout_ == 0) return std::nullopt;
  return RandomStream(seed_, "dropout").Bits(static_cast<uint64_t>(optimizer_->step()));
}

std::unique_ptr<Executor> Trainer::MakeExecutor(const Schedule& schedule) {
  return std::make_unique<Executor>(schedule, model_->chunks(), site_.groups->Get("pp"), trace_);
}

Executor& Trainer::ExecutorFor(int micro_batches) {
  std::unique_ptr<Executor>& executor = executors_[micro_batches];
  if (!executor) executor = MakeExecutor(plan_.ScheduleFor(micro_batches));
  return *executor;
}

Executor& Trainer::EvaluatorFor(int micro_batches) {
  std::unique_ptr<Executor>& executor = evaluators_[micro_batches];
  if (!executor) executor = MakeExecutor(plan_.ForwardScheduleFor(micro_batches));
  return *executor;
}

double Trainer::Pass(const std::vector<Row>& rows) {
  std::vector<int64_t> all(rows.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return Pass(RowList(rows), all);
}

BatchShape Trainer::Shape() const {
  const Mesh& dense = plan_.grids.dense;
  return {.micro_batch = micro_batch_,
          .data_rank = dense.Coordinate(job_.rank(), "dp"),
          .data_size = dense.Size("dp"),
          .multiple = plan_.row_multiple,
          .device = site_.tensors.torch(),
          .context = {.ring = dense.Size("cp") / plan_.ulysses,
                      .ulysses = plan_.ulysses,
                      .rank = dense.Coordinate(job_.rank(), "cp")},
          .dropout = DropoutSeed()};
}

std::vector<int64_t> Trainer::OwnRows(std::span<const int64_t> chosen) const {
  return trireme::OwnRows(chosen, Shape());
}

double Trainer::Pass(const RowSource& rows, std::span<const int64_t> chosen) {
  BatchShape shape = Shape();
  shape.depths = depths_;
  std::vector<MicroBatch> batches = MakeMicroBatches(rows, chosen, shape);
  ShareScales(batches, shape);
  model_->SetBatches(batches);
  ExecutorFor(static_cast<int>(batches.size())).Run();
  const at::Tensor sums = HeadGave(depths_ + 2);  // the losses, and whether some rank is to stop
  if (StopRequested()) sums[-1].fill_(1);
  StartAllReduce(sums, world()).WaitOnHost();
  const at::Tensor host = sums.to(at::kCPU);
  stop_agreed_ = host[-1].item<double>() > 0;
  depth_losses_.clear();
  for (int64_t depth = 1; depth <= depths_; ++depth) depth_losses_.push_back(host[depth].item<double>());
  return host[0].item<double>();
}

// Of a row's ranks one speaks for each part of it: on the first stage, of the tensor-parallel ranks the
// first.
void Trainer::ShareScales(std::vector<MicroBatch>& batches, const BatchShape& shape) {
  if (shape.depths == 0) return;
  const Mesh& dense = plan_.grids.dense;
  const bool speaks = dense.Coordinate(job_.rank(), "tp") == 0 && dense.Coordinate(job_.rank(), "pp") == 0;
  const at::Tensor counts = CountAhead(speaks ? batches : std::vector<MicroBatch>{}, shape);
  StartAllReduce(counts, world()).WaitOnHost();
  ScaleAhead(batches, counts.to(at::kCPU));
}

EvaluationSums Trainer::Evaluate(const RowSource& rows) {
  EvaluationSums sums;
  for (int64_t first = 0; first < rows.size(); first += global_batch_) {
    std::vector<int64_t> chosen(std::min(global_batch_, rows.size() - first));
    std::iota(chosen.begin(), chosen.end(), first);
    std::vector<MicroBatch> batches = MakeMicroBatches(rows, chosen, Shape());
    for (MicroBatch& batch : batches) {
      batch.loss_scale = 1;
      batch.evaluates = true;
      batch.dropout.reset();
    }
    model_->SetBatches(batches);
    EvaluatorFor(static_cast<int>(batches.size())).Run();
    const at::Tensor gave = HeadGave(2);
    StartAllReduce(gave, world()).WaitOnHost();
    const at::Tensor host = gave.to(at::kCPU);
    sums.loss += host[0].item<double>();
    sums.right += host[1].item<int64_t>();
    for (const int64_t row : chosen) sums.tokens += rows.Trained(row);
  }
  return sums;
}

// The head's ranks have the loss, each tensor-parallel one the same: one of them speaks for its tokens.
at::Tensor Trainer::HeadGave(int64_t size) {
  const at::Tensor gave = at::zeros({size}, at::TensorOptions(at::kFloat).device(site_.tensors.torch()));
  const at::Tensor mine = model_->loss();
  if (mine.defined() && site_.groups->Get("tp").rank() == 0) {
    gave.narrow(0, 0, mine.numel()).copy_(mine.reshape({-1}));
  }
  return gave;
}

// One row for each layer: what each expert got, then tokens, dropped, entropy, and the two losses; behind
// them for each rank the rows it received a layer, plus one where it has experts at all.
ExpertBalance Trainer::TakeBalance() {
  const std::vector<ExpertLayer> layers = ExpertLayers(graph_);
  if (layers.empty()) return {};
  ExpertBalance balance(layers, job_.world());
  std::map<std::string, RouterSums>& sums = model_->router_sums();
  int64_t received = 0;
  for (auto& [layer, own] : sums) {
    const at::Tensor numbers = own.numbers.defined() ? own.numbers.to(at::kCPU) : at::zeros({3});
    const float* number = numbers.data_ptr<float>();
    balance.Add(layer, {.rows = own.rows,
                        .tokens = static_cast<double>(own.tokens),
                        .dropped = static_cast<double>(own.dropped),
                        .entropy = number[0],
                        .balance_loss = number[1],
                        .z_loss = number[2]});
    received += own.received;
    own = {};
  }
  if (!sums.empty()) {
    balance.SetReceived(job_.rank(), static_cast<double>(received) / static_cast<double>(sums.size()));
  }
  const at::Tensor all = at::tensor(balance.flat()).to(site_.tensors.torch());
  AllReduce(all, world());
  const at::Tensor whole = all.to(at::kCPU);
  balance.SetFlat({whole.data_ptr<float>(), static_cast<size_t>(whole.numel())});
  return balance;
}

void Trainer::MoveBiases(const ExpertBalance& balance, double speed) {
  const at::NoGradGuard no_graph;
  for (const auto& [layer, sums] : model_->router_sums()) {
    const Weight* bias = model_->weights().FindOrNull(layer + ".router.bias");
    if (bias == nullptr) continue;
    const at::Tensor rows = at::tensor(balance.RowsOf(layer)).to(bias->value.device());
    bias->value.add_((rows.mean() - rows).sign(), speed);
  }
}

double Trainer::pipeline_wait_seconds() const { return site_.groups->Get("pp").waited_seconds(); }

double Trainer::other_wait_seconds() const {
  return site_.groups->waited_seconds() - pipeline_wait_seconds();
}

}  // namespace trireme
