#include "train/trainer.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <numeric>

#include "core/base/random.h"
#include "core/base/stop_signals.h"
#include "parallel/objectives/cross_entropy.h"
#include "parallel/objectives/objectives.h"
#include "parallel/objectives/preference_check.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

constexpr char kStop[] = "stop";  // not one of the objective's sums: how many ranks were asked to stop

OptimizerOptions OptimizerOf(const Config& config, const TensorDevice& tensors) {
  const OptimizerConfig& optimizer = config.optimizer();
  return {.name = optimizer.name(),
          .beta1 = optimizer.beta1(),
          .beta2 = optimizer.beta2(),
          .eps = optimizer.eps(),
          .weight_decay = optimizer.weight_decay(),
          .clip = optimizer.clip(),
          .offload = config.memory().offload_optimizer(),
          .moments = optimizer.moments() == MOMENTS_BF16 ? at::kBFloat16 : at::kFloat,
          .device = tensors.torch()};
}

std::string ObjectiveOf(const Config& config) {
  return IsPreference(config.stage()) ? NameOf(config.stage()) : "cross_entropy";
}

}  // namespace

Trainer::Trainer(Session& session, const std::string& objective)
    : session_(session),
      objective_(MakeObjective(objective.empty() ? ObjectiveOf(session.config()) : objective,
                               session.config().preference())),
      mtp_depths_(std::get<HeadSpec>(session.graph().layers.back().spec).mtp_depths) {
  CommunicatorSet& groups = session.groups();
  optimizer_ = std::make_unique<ShardedOptimizer>(
      model().buckets(),
      OptimizerGroups{.tensor = groups.Get("tp"),
                      .world = groups.Get("world"),
                      .embedding = model().tied_embedding(),
                      .experts = HasExperts(session.graph()) ? &groups.Get("etp-ep") : nullptr,
                      .expert_tensor = session.plan().grids.expert.Size("etp")},
      session.job(), OptimizerOf(session.config(), session.tensors()));
}

// One seed per update: masks change between updates, and repeat when a run is repeated.
std::optional<uint64_t> Trainer::DropoutSeed() const {
  const Config& config = session_.config();
  if (IsPreference(config.stage()) && config.preference().disable_dropout()) return std::nullopt;
  const LayerGraph& graph = session_.graph();
  const bool adapter = graph.adapter && graph.adapter->dropout > 0;
  if (!adapter && session_.config().tuning().hidden_dropout() == 0) return std::nullopt;
  return RandomStream(static_cast<uint64_t>(session_.config().run().seed()), "dropout")
      .Bits(static_cast<uint64_t>(optimizer_->step()));
}

double Trainer::Pass(const std::vector<Row>& rows) {
  std::vector<int64_t> all(rows.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return Pass(RowList(rows), all);
}

std::vector<int64_t> Trainer::OwnRows(std::span<const int64_t> chosen) const {
  return trireme::OwnRows(chosen, ShapeOf(session_));
}

double Trainer::Pass(const RowSource& rows, std::span<const int64_t> chosen) {
  BatchShape shape = ShapeOf(session_);
  shape.mtp_depths = mtp_depths_;
  std::vector<PassInput> inputs = MakePassInputs(rows, chosen, shape);
  BatchTotals totals = TotalsOf(rows, chosen);
  totals.mtp = ReduceMtp(inputs, shape);
  PassBatch batch(std::move(inputs), OptionsOf(totals));
  return Pass(batch);
}

PassOptions Trainer::OptionsOf(const BatchTotals& totals) const {
  return {.objective = objective_.get(), .dropout = DropoutSeed(), .totals = totals};
}

double Trainer::Pass(PassBatch& batch) {
  session_.RunForwardBackward(batch);
  sums_ = session_.ReduceSums(batch.result(), objective_->SumNames(mtp_depths_),
                              {{kStop, StopRequested() ? 1.0 : 0.0}});
  return sums_.at("loss");
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
  return MtpTotals(counts.to(at::kCPU));
}

// One row for each layer: tokens per expert, then tokens, dropped, entropy, and the two losses; after
// them for each rank the rows it received per layer, plus one if it has experts at all.
ExpertBalance Trainer::TakeBalance() {
  const std::vector<ExpertLayer> layers = ExpertLayers(session_.graph());
  if (layers.empty()) return {};
  ExpertBalance balance(layers, session_.job().world());
  std::map<std::string, RouterSums>& sums = model().router_sums();
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
    balance.SetReceived(session_.job().rank(), static_cast<double>(received) / static_cast<double>(sums.size()));
  }
  const at::Tensor all = at::tensor(balance.flat()).to(tensors().torch());
  AllReduce(all, world());
  const at::Tensor whole = all.to(at::kCPU);
  balance.SetFlat({whole.data_ptr<float>(), static_cast<size_t>(whole.numel())});
  return balance;
}

void Trainer::MoveBiases(const ExpertBalance& balance, double speed) {
  const at::NoGradGuard no_graph;
  for (const auto& [layer, sums] : model().router_sums()) {
    const Weight* bias = model().weights().FindOrNull(layer + ".router.bias");
    if (bias == nullptr) continue;
    const at::Tensor rows = at::tensor(balance.RowsOf(layer)).to(bias->value.device());
    bias->value.add_((rows.mean() - rows).sign(), speed);
  }
}

double Trainer::pipeline_wait_seconds() const { return session_.groups().Get("pp").waited_seconds(); }

double Trainer::other_wait_seconds() const {
  return session_.groups().waited_seconds() - pipeline_wait_seconds();
}

}  // namespace trireme
