#include "train/step/trainer.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <numeric>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/stop_signals.h"
#include "core/tensor/device_copies.h"
#include "parallel/graph/tuning.h"
#include "parallel/objectives/cross_entropy.h"
#include "parallel/objectives/objectives.h"
#include "parallel/tensor/collectives.h"
#include "session/exchange_sizes.h"
#include "stages/objective_options.h"
#include "stages/stage.h"
#include "train/step/part_rates.h"

namespace trireme {
namespace {

constexpr char kStop[] = "stop";  // not one of the objective's sums: how many ranks were asked to stop

at::ScalarType MomentsOf(const OptimizerConfig& optimizer) {
  switch (optimizer.moments()) {
    case MOMENTS_FP32:
      return at::kFloat;
    case MOMENTS_BF16:
      return at::kBFloat16;
    case MOMENTS_8BIT:
      return at::kByte;
  }
  return at::kFloat;
}

OptimizerOptions OptimizerOf(const Session& session) {
  const Config& config = session.config();
  const OptimizerConfig& optimizer = config.optimizer();
  return {.name = optimizer.name(),
          .beta1 = optimizer.beta1(),
          .beta2 = optimizer.beta2(),
          .eps = optimizer.eps(),
          .weight_decay = optimizer.weight_decay(),
          .clip = optimizer.clip(),
          .momentum = optimizer.name() == "muon" ? optimizer.muon_momentum() : optimizer.sgd_momentum(),
          .loraplus_lr_ratio = config.tuning().loraplus_lr_ratio(),
          .lr_factors = LrFactorsOf(optimizer, session.graph()),
          .ema = optimizer.ema(),
          .keep_initial = KeepsInitial(session.graph()),
          .offload = config.memory().offload_optimizer(),
          .in_backward = optimizer.update() == UPDATE_IN_BACKWARD,
          .moments = MomentsOf(optimizer),
          .adafactor = {.scale_parameter = optimizer.adafactor_scale_parameter(),
                        .clip = optimizer.adafactor_clip(),
                        .decay = optimizer.adafactor_decay()},
          .device = session.tensors().torch()};
}

// A layer's numbers in the order of ExpertBalance, computed where they are: [experts + 5] fp32.
at::Tensor BalanceNumbers(const RouterSums& own) {
  const at::Tensor dropped = own.tokens * own.choices - own.rows.sum();
  const at::Tensor numbers = own.numbers.defined() ? own.numbers : at::zeros({3}, own.rows.options().dtype(at::kFloat));
  return at::cat({at::cat({own.rows, own.tokens, dropped}).to(at::kFloat), numbers});
}

std::vector<int64_t> AllOf(const std::vector<Row>& rows) {
  std::vector<int64_t> all(rows.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

}  // namespace

Trainer::Trainer(Session& session, const std::string& objective)
    : session_(session),
      objective_(MakeObjective(objective.empty() ? ObjectiveOf(session.config()) : objective,
                               ObjectiveOptionsOf(session.config()))),
      mtp_depths_(std::get<HeadSpec>(session.graph().layers.back().spec).mtp_depths) {
  CommunicatorSet& groups = session.groups();
  optimizer_ = std::make_unique<ShardedOptimizer>(
      model().buckets(),
      OptimizerGroups{.tensor = groups.Get("tp"),
                      .world = groups.Get("world"),
                      .embedding = model().tied_embedding(),
                      .experts = HasExperts(session.graph()) ? &groups.Get("etp-ep") : nullptr,
                      .expert_tensor = session.plan().grids.expert.Size("etp"),
                      .stage = UsesStageGroup(session.config()) ? &groups.Get("stage") : nullptr},
      session.job(), OptimizerOf(session));
  const at::Device device = session.tensors().torch();
  if (ExpectsExchange(session.config(), /*npu=*/device.is_privateuseone())) {
    forecast_.emplace(model().expected_rows(), device);
  }
}

// One seed per update: masks change between updates, and repeat when a run is repeated.
std::optional<uint64_t> Trainer::DropoutSeed() const {
  const Config& config = session_.config();
  if (!DrawsDropout(config)) return std::nullopt;
  const LayerGraph& graph = session_.graph();
  const bool adapter = graph.adapter && graph.adapter->dropout > 0;
  const TuningConfig& tuning = config.tuning();
  if (!adapter && tuning.hidden_dropout() == 0 && tuning.neftune_alpha() == 0) return std::nullopt;
  return RandomStream(static_cast<uint64_t>(session_.config().run().seed()), "dropout")
      .Bits(static_cast<uint64_t>(optimizer_->step()));
}

double Trainer::Pass(const std::vector<Row>& rows) { return Pass(RowList(rows), AllOf(rows)); }

std::vector<int64_t> Trainer::OwnRows(std::span<const int64_t> chosen) const {
  return trireme::OwnRows(chosen, ShapeOf(session_));
}

double Trainer::Pass(const RowSource& rows, std::span<const int64_t> chosen) {
  return Pass(*BatchOf(rows, chosen, /*expects_rows=*/false));
}

void Trainer::StartPass(const std::vector<Row>& rows) { StartPass(RowList(rows), AllOf(rows)); }

void Trainer::StartPass(const RowSource& rows, std::span<const int64_t> chosen, std::span<const int64_t> places) {
  auto batch = BatchOf(rows, chosen, forecast_.has_value(), places);
  StartPass(*batch);
  if (forecast_) started_ = std::move(batch);
}

std::unique_ptr<PassBatch> Trainer::BatchOf(const RowSource& rows, std::span<const int64_t> chosen, bool expects_rows,
                                            std::span<const int64_t> places) {
  BatchShape shape = ShapeOf(session_);
  shape.mtp_depths = mtp_depths_;
  std::vector<PassInput> inputs = MakePassInputs(rows, chosen, shape, places);
  BatchTotals totals = TotalsOf(rows, chosen);
  totals.mtp = ReduceMtp(inputs, shape);
  PassOptions options = OptionsOf(totals);
  options.expects_rows = expects_rows;
  return std::make_unique<PassBatch>(std::move(inputs), std::move(options));
}

PassOptions Trainer::OptionsOf(const BatchTotals& totals) const {
  return {.objective = objective_.get(), .dropout = DropoutSeed(), .totals = totals};
}

double Trainer::Pass(PassBatch& batch) {
  StartPass(batch);
  TakeSums();
  return loss();
}

void Trainer::StartPass(PassBatch& batch) {
  session_.RunForwardBackward(batch);
  pending_sums_.emplace(batch.result(), objective_->SumNames(mtp_depths_),
                        /*speaks=*/session_.Coordinate("tp") == 0, NamedSums{{kStop, StopRequested() ? 1.0 : 0.0}},
                        world(), tensors().torch(),
                        batch.options().expects_rows ? forecast_->Numbers() : RankNumbers());
}

void Trainer::TakeSums() {
  if (!pending_sums_) return;
  sums_ = pending_sums_->Take();
  if (forecast_) forecast_->Learn(pending_sums_->own());
  pending_sums_.reset();
}

GradientReport Trainer::FinishGradients() {
  GradientReport report = optimizer_->FinishGradients();
  TakeSums();  // reduced before the norm, by the same communicator
  const std::unique_ptr<PassBatch> started = std::move(started_);
  if (!started || sums_.at(ExchangeForecast::kNoRoom) == 0) return report;
  return Repeat(*started);
}

// Nothing was updated yet: what the pass has left behind are gradients, sums and the routers' statistics.
GradientReport Trainer::Repeat(const PassBatch& batch) {
  if (++repeats_ == 1 && session_.job().rank() == 0) {
    TRIREME_LOG(INFO) << "update " << optimizer_->step() + 1
                      << ": more tokens chose the experts of some rank than their exchange had room for; the step is "
                         "repeated with exact sizes. log.jsonl counts such steps in experts.repeated_steps; "
                         "experts.exchange: exact avoids them";
  }
  optimizer_->SkipUpdate();
  for (auto& [layer, own] : model().router_sums()) own = {};
  forecast_->Forget();
  PassBatch again(batch.inputs(), batch.options());
  StartPass(again);
  GradientReport report = optimizer_->FinishGradients();
  TakeSums();
  return report;
}

bool Trainer::stop_agreed() const { return sums_.contains(kStop) && sums_.at(kStop) > 0; }

std::vector<double> Trainer::mtp_losses() const {
  std::vector<double> losses;
  for (int64_t depth = 1; depth <= mtp_depths_; ++depth) losses.push_back(sums_.at(MtpLossName(depth)));
  return losses;
}

// One of a row's ranks contributes each part of it: on the first stage, of the tensor-parallel ranks the
// first.
std::vector<BatchTotals> Trainer::ReduceMtp(const std::vector<PassInput>& inputs, const BatchShape& shape) {
  if (shape.mtp_depths == 0) return {};
  const bool speaks = session_.Coordinate("tp") == 0 && session_.Coordinate("pp") == 0;
  const at::Tensor counts = CountMtp(speaks ? inputs : std::vector<PassInput>{}, shape);
  StartAllReduce(counts, world()).WaitOnHost();
  return MtpTotals(DownloadComputed(counts));
}

ExpertBalance Trainer::TakeBalance() {
  const std::vector<ExpertLayer> layers = ExpertLayers(session_.graph());
  if (layers.empty()) return {};
  ExpertBalance balance(layers, session_.job().world());
  std::map<std::string, RouterSums>& sums = model().router_sums();
  const at::Tensor all =
      at::zeros({static_cast<int64_t>(balance.flat().size())}, at::TensorOptions(at::kFloat).device(tensors().torch()));
  const at::Tensor received = all.narrow(0, balance.offset_of_rank(session_.job().rank()), 1);
  for (auto& [layer, own] : sums) {
    if (!own.rows.defined()) continue;
    const at::Tensor numbers = BalanceNumbers(own);
    all.narrow(0, balance.offset_of(layer), numbers.numel()).copy_(numbers);
    received.add_(own.received.to(at::kFloat));
    own = {};
  }
  if (!sums.empty()) received.div_(static_cast<double>(sums.size())).add_(1.0);
  StartAllReduce(all, world()).WaitOnHost();
  const at::Tensor whole = DownloadComputed(all);
  balance.SetFlat({whole.data_ptr<float>(), static_cast<size_t>(whole.numel())});
  return balance;
}

void Trainer::MoveBiases(const ExpertBalance& balance, double speed) {
  const at::NoGradGuard no_graph;
  for (const auto& [layer, sums] : model().router_sums()) {
    const Weight* bias = model().weights().FindOrNull(layer + ".router.bias");
    if (bias == nullptr) continue;
    const at::Tensor rows = Upload(at::tensor(balance.RowsOf(layer)), bias->value.device());
    bias->value.add_((rows.mean() - rows).sign(), speed);
  }
}

double Trainer::pipeline_wait_seconds() const { return session_.groups().Get("pp").waited_seconds(); }

double Trainer::other_wait_seconds() const { return session_.groups().waited_seconds() - pipeline_wait_seconds(); }

}  // namespace trireme
