#include "train/methods/policy/policy.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "data/answer_rows.h"
#include "data/image_rows.h"
#include "data/model_images.h"
#include "parallel/objectives/answer_facts.h"
#include "parallel/objectives/policy_facts.h"
#include "parallel/objectives/policy_losses.h"
#include "parallel/objectives/token_log_probs.h"
#include "parallel/tensor/collectives.h"
#include "stages/policy_check.h"
#include "stages/ppo_check.h"
#include "stages/preference_check.h"
#include "stages/stage.h"
#include "train/rollouts/replay.h"
#include "train/rollouts/rollout_metrics.h"
#include "train/step/rank_sums.h"

namespace trireme {
namespace {

// What a forward pass computes of each token, by micro batch, on ranks with the head; nothing is differentiated or
// dropped. Collective.
std::vector<PassOutput> ForwardOf(Session& model, const std::vector<PassInput>& inputs, PassOptions options) {
  const TokenLogProbs objective(model.config().rl().temperature());
  options.objective = &objective;
  options.differentiate = false;
  PassBatch batch(inputs, options);
  model.RunForward(batch);
  return batch.result().outputs;
}

// In host memory.
std::vector<float> Trained(const at::Tensor& by_label, const PassInput& input) {
  const at::Tensor host = by_label.index_select(0, input.trained).to(at::kCPU).contiguous();
  return {host.data_ptr<float>(), host.data_ptr<float>() + host.numel()};
}

bool SeeAlike(const LayerGraph& a, const LayerGraph& b) {
  if (!a.images || !b.images) return a.images.has_value() == b.images.has_value();
  return a.images->placeholder == b.images->placeholder && a.images->merge == b.images->merge &&
         a.images->elements == b.images->elements && a.images->tile == b.images->tile;
}

// All models of a run read the same patches.
void CheckSeesAlike(const Session& own, const Session& other, const char* what) {
  if (SeeAlike(own.graph(), other.graph())) return;
  throw InputError(
      what, ": ", other.config().model().path(), " does not see images as ", own.config().model().path(),
      " does: ", other.graph().images ? "its patches or placeholders are others" : "it has no vision tower",
      "; prompts with images need models with the same kind of tower");
}

bool HaveImages(std::span<const Rollout> rollouts) {
  return std::ranges::any_of(rollouts, [](const Rollout& one) { return one.images != nullptr; });
}

// Rows of completions of which any has images, with their patches.
Rows WithPatches(Rows rows, const Config& config) {
  return ImageRows(std::move(rows), ImageReaderOf(config.model()),
                   static_cast<size_t>(config.data().image_cache_mb()) << 20);
}

// A bound that the same values reach as reach torch.quantile, which is linear between the two values next to it:
// halfway between the last value below and the first above, so that it stays true where another pass rounds otherwise.
double QuantileBound(std::vector<double> values, double share) {
  constexpr double kOnAValue = 1e-6;
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double place = share * static_cast<double>(values.size() - 1);
  const double first_place = std::ceil(place - kOnAValue);
  const double reached = values[static_cast<size_t>(std::max(first_place, 0.0))];
  const auto first = std::ranges::lower_bound(values, reached);
  return first == values.begin() ? -1 : (*std::prev(first) + reached) / 2;  // no entropy is negative
}

}  // namespace

PolicyPass::PolicyPass(Trainer& trainer, const std::optional<std::filesystem::path>& checkpoint)
    : trainer_(trainer), session_(trainer.session()) {
  if (WantsReference(session_.config())) reference_ = std::make_unique<Reference>(session_, checkpoint);
  if (FactsOf(session_.config()).baseline == Baseline::kValues) ppo_ = std::make_unique<PpoPass>(session_, checkpoint);
}

void PolicyPass::MakeUpdates(size_t count) {
  const Config& config = session_.config();
  TRIREME_CHECK(rollouts_.size() % count == 0) << rollouts_.size() << " completions in " << count << " updates";
  const size_t size = rollouts_.size() / count;
  const RolloutRowOptions options{.longest = config.data().max_length(),
                                  .share_prompt = config.rl().share_prompt() && CountsNoTokens(config.experts()),
                                  .mask_truncated = config.rl().mask_truncated(),
                                  .pack = config.data().packing()};
  if (HaveImages(rollouts_)) {
    if (reference_) {
      reference_->Use([&](Session& model, bool) { CheckSeesAlike(session_, model, "the reference, or the teacher"); });
    }
    if (ppo_ && ppo_->value_model()) CheckSeesAlike(session_, ppo_->value_model()->session(), "rl.value_model");
  }
  updates_.clear();
  double trained = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::span<const Rollout> mine = std::span(rollouts_).subspan(i * size, size);
    Update update{.rows = HaveImages(mine) ? WithPatches(RowsOf(mine, options), config) : RowsOf(mine, options),
                  .inputs = {},
                  .totals = {},
                  .first = i * size};
    const std::vector<int64_t> all = AllRows(*update.rows);
    update.inputs = MakePassInputs(*update.rows, all, ShapeOf(session_));
    update.totals = TotalsOf(*update.rows, all);
    update.totals.samples = static_cast<int64_t>(size);
    trained += static_cast<double>(update.totals.trained);
    updates_.push_back(std::move(update));
  }
  for (Update& update : updates_)
    update.totals.facts.Edit<PolicyTotals>().window_tokens = trained / static_cast<double>(count);
}

void PolicyPass::AskOld() {
  const PassWants wants{.log_probs = true, .scores = PolicyHasValues(session_.config())};
  for (Update& update : updates_) {
    const std::vector<PassOutput> outputs = ForwardOf(session_, update.inputs, {.wants = wants});
    for (size_t i = 0; i < outputs.size(); ++i) {
      PolicyFacts& known = update.inputs[i].facts.Edit<PolicyFacts>();
      known.old = outputs[i].log_probs;
      known.values = outputs[i].scores;
    }
  }
}

void PolicyPass::AskReference() {
  if (!reference_) return;
  if (teacher_) {
    for (Update& update : updates_) teacher_(*update.rows, update.inputs);
    return;
  }
  reference_->Use([&](Session& model, bool adapters) {
    for (Update& update : updates_) {
      const std::vector<PassOutput> outputs =
          ForwardOf(model, update.inputs, {.adapters = adapters, .wants = {.log_probs = true}});
      for (size_t i = 0; i < outputs.size(); ++i) {
        update.inputs[i].facts.Edit<PolicyFacts>().reference = outputs[i].log_probs;
      }
    }
  });
}

std::vector<double> PolicyPass::Penalties() {
  std::vector<double> sums(rollouts_.size() + 1, 0);  // the last: over all tokens
  for (const Update& update : updates_) {
    for (const PassInput& input : update.inputs) {
      const PolicyFacts& known = input.facts.Get<PolicyFacts>();
      if (!known.old.defined() || session_.Coordinate("tp") != 0) continue;
      const std::vector<double>& completions = input.facts.Get<AnswerFacts>().values;
      const std::vector<float> apart = Trained(known.old - known.reference, input);
      const at::Tensor document = input.sequence.index_select(0, input.trained).to(at::kCPU);
      for (size_t i = 0; i < apart.size(); ++i) {
        const auto index = static_cast<size_t>(completions[static_cast<size_t>(document.data_ptr<int64_t>()[i])]);
        sums[update.first + index] += apart[i];
        sums.back() += apart[i];
      }
    }
  }
  sums = SumOverRanks(sums, session_);
  double tokens = 0;
  for (const Update& update : updates_) tokens += static_cast<double>(update.totals.trained);
  sampling_metrics_["kl"] = sums.back() / std::max(tokens, 1.0);
  sums.pop_back();
  for (double& sum : sums) sum *= session_.config().rl().beta();
  return sums;
}

void PolicyPass::SetAdvantages(const std::vector<std::string>& names) {
  const Config& config = session_.config();
  const RlConfig& rl = config.rl();
  const RewardTable table =
      TableOf(rollouts_, names, {rl.reward_weights().begin(), rl.reward_weights().end()}, rl.group());
  if (ppo_) return SetTokenAdvantages(table);
  std::vector<double> totals = trireme::TotalsOf(table);
  totals.resize(rollouts_.size(), std::nan(""));
  if (reference_ && !HasKlLoss(config)) {
    const std::vector<double> penalties = Penalties();
    for (size_t i = 0; i < totals.size(); ++i) totals[i] -= penalties[i];
  }
  const std::vector<double> advantages = AdvantagesOf(totals, rl.group(), config);
  bool given = false;
  for (size_t i = 0; i < rollouts_.size(); ++i) {
    given |= rollouts_[i].advantage.has_value();
    if (!rollouts_[i].advantage) rollouts_[i].advantage = advantages[i];
  }
  if (given) return;
  sampling_metrics_.merge(RewardMetrics(table, config));
  const std::string why = WhyNothingIsLearnt(table);
  if (!why.empty() && session_.job().rank() == 0) nothing_learnt_.Say(why);
}

std::span<Rollout> PolicyPass::RolloutsOf(const Update& update) {
  return std::span(rollouts_).subspan(update.first, rollouts_.size() / updates_.size());
}

void PolicyPass::SetTokenAdvantages(const RewardTable& table) {
  std::vector<PpoPass::Update> updates;
  for (Update& update : updates_) updates.push_back({update.inputs, RolloutsOf(update)});
  sampling_metrics_.merge(ppo_->Begin(updates, trireme::TotalsOf(table)));
  sampling_metrics_.merge(RewardMetrics(table, session_.config()));
}

// Until here the values of answers are the completions' numbers.
void PolicyPass::PutAdvantages() {
  for (Update& update : updates_) {
    for (PassInput& input : update.inputs) {
      for (double& value : input.facts.Edit<AnswerFacts>().values) {
        value = rollouts_[update.first + static_cast<size_t>(value)].advantage.value_or(0);
      }
    }
  }
}

void PolicyPass::Begin(std::vector<Rollout> rollouts, const std::vector<std::string>& names) {
  const Config& config = session_.config();
  rollouts_ = std::move(rollouts);
  MakeUpdates(static_cast<size_t>(config.rl().steps_per_generation()));
  if (NeedsOldLogProbs(config)) AskOld();
  AskReference();
  sampling_metrics_ = LengthMetrics(rollouts_);
  if (!teacher_) SetAdvantages(names);
  PutAdvantages();
}

void PolicyPass::BeginGiven(std::vector<Rollout> rollouts) {
  rollouts_ = std::move(rollouts);
  const bool known = std::ranges::all_of(rollouts_, [](const Rollout& one) { return !one.log_probs.empty(); });
  MakeUpdates(1);
  for (PassInput& input : updates_[0].inputs) {
    PolicyFacts& tokens = input.facts.Edit<PolicyFacts>();
    if (known) tokens.old = tokens.sampled;
  }
  AskReference();
  sampling_metrics_ = LengthMetrics(rollouts_);
  PutAdvantages();
}

// The entropy below which tokens do not count, over all tokens of the update.
double PolicyPass::EntropyBound(const Update& update) {
  if (update.totals.trained == 0) return 0;
  const std::vector<PassOutput> outputs = ForwardOf(session_, update.inputs, {.wants = {.entropies = true}});
  std::vector<float> mine;
  for (size_t i = 0; i < outputs.size() && session_.Coordinate("tp") == 0; ++i) {
    if (!outputs[i].entropies.defined()) continue;
    const std::vector<float> found = Trained(outputs[i].entropies, update.inputs[i]);
    mine.insert(mine.end(), found.begin(), found.end());
  }
  const auto rank = static_cast<size_t>(session_.job().rank());
  std::vector<double> counts(static_cast<size_t>(session_.job().world()), 0.0);
  counts[rank] = static_cast<double>(mine.size());
  counts = SumOverRanks(counts, session_);
  const auto first =
      static_cast<size_t>(std::accumulate(counts.begin(), counts.begin() + static_cast<int64_t>(rank), 0.0));
  std::vector<double> all(static_cast<size_t>(update.totals.trained), 0.0);
  std::copy(mine.begin(), mine.end(), all.begin() + static_cast<int64_t>(first));
  return QuantileBound(SumOverRanks(all, session_), 1 - session_.config().rl().top_entropy_quantile());
}

// How far the sampler's log-probabilities are from the trainer's, which are the same but for rounding if both are us.
void PolicyPass::AddSamplerDifference(const PassResult& result, const Update& update) {
  double sum = 0, count = 0, largest = 0;
  for (size_t i = 0; i < update.inputs.size() && session_.Coordinate("tp") == 0; ++i) {
    const PassInput& input = update.inputs[i];
    const PolicyFacts& known = input.facts.Get<PolicyFacts>();
    const at::Tensor& ours = known.old.defined() ? known.old : result.outputs[i].log_probs;
    if (!ours.defined() || !known.sampled.defined()) continue;
    for (const float apart : Trained(ours - known.sampled, input)) {
      if (std::isnan(apart)) continue;
      sum += std::abs(apart);
      largest = std::max(largest, static_cast<double>(std::abs(apart)));
      ++count;
    }
  }
  const std::vector<double> sums = SumOverRanks(std::vector<double>{sum, count}, session_);
  const at::Tensor most = at::scalar_tensor(largest, at::kFloat).to(session_.tensors().torch());
  AllReduce(most, session_.world(), ReduceOp::kMax);
  if (sums[1] == 0) return;
  metrics_["sampling/sampling_logp_difference/mean"] = sums[0] / sums[1];
  metrics_["sampling/sampling_logp_difference/max"] = most.item<double>();
}

// By TRL's names; the sum of both losses, of which the objective of a policy with values itself has given all.
double PolicyPass::AddValueLoss(const Update& update, double loss) {
  metrics_["policy/clipfrac_avg"] = metrics_.at("clip_ratio/region_mean");
  ValueModel* model = ppo_->value_model();
  if (model == nullptr) return loss;
  const double value_loss = model->Pass(update.inputs, update.totals, RolloutsOf(update));
  metrics_["loss/policy_avg"] = loss;
  metrics_["loss/value_avg"] = value_loss;
  metrics_["val/clipfrac_avg"] = model->sums().at("val/clipfrac_avg");
  return loss + session_.config().rl().vf_coef() * value_loss;
}

double PolicyPass::Pass(size_t update) {
  last_ = update;
  Update& mine = updates_.at(update);
  const bool selects = session_.config().rl().top_entropy_quantile() < 1;
  if (selects) mine.totals.facts.Edit<PolicyTotals>().entropy_bound = EntropyBound(mine);
  const bool first = !sampling_metrics_.empty();
  PassOptions options = trainer_.OptionsOf(mine.totals);
  options.wants.log_probs = first;
  PassBatch batch(mine.inputs, options);
  double loss = trainer_.Pass(batch);
  metrics_ = std::exchange(sampling_metrics_, {});
  for (const std::string& name : options.objective->SumNames(0)) {
    if (name != "loss") metrics_[name] = trainer_.sums().at(name);
  }
  if (first) AddSamplerDifference(batch.result(), mine);
  if (ppo_) loss = AddValueLoss(mine, loss);
  return loss;
}

}  // namespace trireme
