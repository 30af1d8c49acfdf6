#include "train/methods/preference/preference.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/base/error.h"
#include "data/mismatched_rows.h"
#include "parallel/objectives/answer_facts.h"
#include "parallel/tensor/collectives.h"
#include "stages/preference_check.h"
#include "stages/stage.h"
#include "train/methods/preference/sorted_answers.h"
#include "train/step/metric_means.h"
#include "train/step/rank_sums.h"

namespace trireme {
namespace {

void TakeReference(const std::vector<std::vector<double>>& found, std::vector<PassInput>& inputs) {
  for (size_t i = 0; i < found.size(); ++i) inputs[i].facts.Edit<AnswerFacts>().reference = found[i];
}

}  // namespace

PreferencePass::PreferencePass(Trainer& trainer, const std::optional<std::filesystem::path>& checkpoint)
    : trainer_(trainer), session_(trainer.session()), state_(trainer.objective().InitialState()) {
  // A second model whose log-probabilities may all be in the cache is opened where they are not (Precompute).
  const Config& config = session_.config();
  const bool later = config.preference().precompute_ref_log_probs() && NeedsSecondModel(config);
  if (WantsReference(config) && !later) reference_ = std::make_unique<Reference>(session_, checkpoint);
}

PreferencePass::Tables PreferencePass::TablesOf(const RowSource& rows, const BatchSamplerOptions& order,
                                                int64_t steps) {
  const auto open = [&]() -> Reference& {
    if (!reference_) reference_ = std::make_unique<Reference>(session_);
    return *reference_;
  };
  Tables tables{.answers = std::make_unique<ReferenceTable>(session_, rows, open), .kl = nullptr};
  if (EstimatesKl(session_.config())) tables.kl = std::make_unique<KlTable>(session_, rows, order, steps, open);
  return tables;
}

void PreferencePass::Precompute(const RowSource& train, const BatchSamplerOptions& order, int64_t steps,
                                const RowSource* valid) {
  if (!session_.config().preference().precompute_ref_log_probs()) return;
  train_tables_ = TablesOf(train, order, steps);
  if (valid != nullptr) {  // as Evaluate goes through them
    const BatchSamplerOptions in_order{
        .rows = valid->size(), .batch = session_.config().run().global_batch(), .shuffle = false};
    valid_tables_ = TablesOf(*valid, in_order, BatchSampler(in_order).steps_per_epoch());
  }
  reference_.reset();
}

// Samples, trained labels of chosen answers and of the others, and good answers, over all ranks.
void PreferencePass::Count(Prepared& batch) {
  const bool pairs = FactsOf(session_.config()).records == Records::kPairs;
  const at::Tensor counts = at::zeros({4}, at::TensorOptions(at::kInt).device(session_.tensors().torch()));
  int64_t samples = 0, chosen = 0, rejected = 0, desirable = 0;
  for (const PassInput& input : batch.inputs) {
    const AnswerFacts& facts = input.facts.Get<AnswerFacts>();
    for (size_t i = 0; i < facts.tokens.size(); i += pairs ? 2 : 1) {
      const bool good = facts.values[i] > 0.5;  // of a single answer
      ++samples;
      (pairs || good ? chosen : rejected) += facts.trained[i];
      if (pairs) rejected += facts.trained[i + 1];
      desirable += good;
    }
  }
  if (SpeaksForRows(session_) && session_.Coordinate("pp") == 0) {
    counts.copy_(at::tensor(std::vector<int64_t>{samples, chosen, desirable, rejected}, at::kLong).to(at::kInt));
  }
  AllReduce(counts, session_.world());
  const at::Tensor host = counts.to(at::kCPU);
  const int32_t* count = host.data_ptr<int32_t>();
  batch.totals.samples = count[0];
  AnswerTotals& kinds = batch.totals.facts.Edit<AnswerTotals>();
  kinds.chosen = count[1];
  kinds.desirable = count[2];
  kinds.rejected = count[3];
}

// The log-probabilities of all pairs of the batch on every rank, each in a slot of its own; then what stands at each
// pair's place of the sorted lists.
void PreferencePass::SetRivals(std::vector<PassInput>& inputs, int64_t pairs) {
  const std::vector<std::vector<double>> policy = AnswerLogProbsOf(session_, inputs);
  const int data_ranks = session_.plan().grids.dense.Size("dp");
  const auto own = static_cast<size_t>(session_.Coordinate("dp"));
  const bool speaks = SpeaksForRows(session_) && session_.Coordinate("pp") == 0;
  std::vector<double> counts(static_cast<size_t>(data_ranks), 0.0);
  for (const PassInput& input : inputs) {
    counts[own] += speaks ? static_cast<double>(input.facts.Get<AnswerFacts>().tokens.size()) : 0;
  }
  counts = SumOverRanks(counts, session_);
  const auto first = static_cast<size_t>(std::accumulate(counts.begin(), counts.begin() + own, 0.0));

  std::vector<double> table(static_cast<size_t>(4 * pairs), 0.0);  // by document: the policy's, then the reference's
  size_t slot = first;
  for (size_t i = 0; i < inputs.size() && SpeaksForRows(session_); ++i) {
    for (size_t document = 0; document < policy[i].size(); ++document, ++slot) {
      table[slot] = policy[i][document];
      const std::vector<double>& reference = inputs[i].facts.Get<AnswerFacts>().reference;
      table[static_cast<size_t>(2 * pairs) + slot] = reference.empty() ? 0 : reference[document];
    }
  }
  table = SumOverRanks(table, session_);
  const SortedAnswers sorted({table.begin(), table.begin() + 2 * pairs}, {table.begin() + 2 * pairs, table.end()});
  slot = first;
  for (PassInput& input : inputs) {
    AnswerFacts& facts = input.facts.Edit<AnswerFacts>();
    const size_t documents = facts.tokens.size();
    facts.rivals.assign(2, std::vector<double>(documents));
    for (size_t document = 0; document < documents; ++document, ++slot) {
      facts.rivals[0][document] = sorted.rival(slot);
      facts.rivals[1][document] = sorted.unpaired_rival(slot);
    }
  }
}

// How much likelier than to the reference answers to other prompts are to the policy: at least 0.
double PreferencePass::EstimateKl(const RowSource& rows, std::span<const int64_t> chosen, int64_t samples,
                                  const KlTable* table, int64_t step) {
  const MismatchedRows mismatched(rows, {chosen.begin(), chosen.end()}, session_.config().data().max_length());
  std::vector<int64_t> all(chosen.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  std::vector<PassInput> inputs = MakePassInputs(mismatched, all, ShapeOf(session_));
  if (table != nullptr) {
    table->Fill(step, inputs);
  } else {
    TakeReference(reference_->LogProbsOf(inputs), inputs);
  }
  return std::max(MeanLogRatio(inputs, samples), 0.0);
}

double PreferencePass::MeanLogRatio(const std::vector<PassInput>& inputs, int64_t samples) {
  const std::vector<std::vector<double>> policy = AnswerLogProbsOf(session_, inputs);
  double sum = 0;
  for (size_t i = 0; i < inputs.size() && SpeaksForRows(session_); ++i) {
    for (size_t document = 0; document < policy[i].size(); ++document) {
      sum += policy[i][document] - inputs[i].facts.Get<AnswerFacts>().reference[document];
    }
  }
  return SumOverRanks(std::vector<double>{sum}, session_)[0] / static_cast<double>(std::max<int64_t>(samples, 1));
}

PreferencePass::Prepared PreferencePass::Prepare(const RowSource& rows, std::span<const int64_t> chosen,
                                                 const Tables& tables, int64_t step, bool trains) {
  const Config& config = session_.config();
  Prepared batch{MakePassInputs(rows, chosen, ShapeOf(session_)), TotalsOf(rows, chosen)};
  Count(batch);
  if (tables.answers) {
    tables.answers->Fill(chosen, batch.inputs);
  } else if (reference_) {
    TakeReference(reference_->LogProbsOf(batch.inputs), batch.inputs);
  }
  if (SortsAnswers(config)) SetRivals(batch.inputs, batch.totals.samples);
  if (EstimatesKl(config)) {
    batch.totals.facts.Edit<AnswerTotals>().kl = EstimateKl(rows, chosen, batch.totals.samples, tables.kl.get(), step);
  }
  if (trains && !state_.empty()) {
    const double mean = MeanLogRatio(batch.inputs, batch.totals.samples);
    state_ = trainer_.objective().NextState(state_, mean, batch.totals.samples);
  }
  batch.totals.facts.Edit<AnswerTotals>().state = state_;
  return batch;
}

PassOptions PreferencePass::OptionsOf(const BatchTotals& totals) const {
  PassOptions options = trainer_.OptionsOf(totals);
  options.wants.sequence_scores = FactsOf(session_.config()).head == HeadKind::kScore;
  return options;
}

void PreferencePass::AddExtremes(const PassResult& result, MetricValues& metrics) const {
  if (FactsOf(session_.config()).head != HeadKind::kScore) return;
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  float highest = kLowest, minus_lowest = kLowest;
  for (const PassOutput& output : result.outputs) {
    if (!output.sequence_scores.defined() || output.sequence_scores.numel() == 0) continue;
    const at::Tensor host = output.sequence_scores.to(at::kCPU).contiguous();
    const std::span<const float> scores(host.data_ptr<float>(), static_cast<size_t>(host.numel()));
    highest = std::max(highest, *std::ranges::max_element(scores));
    minus_lowest = std::max(minus_lowest, -*std::ranges::min_element(scores));
  }
  const at::Tensor both = at::tensor(std::vector<float>{highest, minus_lowest}).to(session_.tensors().torch());
  AllReduce(both, session_.world(), ReduceOp::kMax);
  const at::Tensor host = both.to(at::kCPU);
  metrics["max_reward"] = host.data_ptr<float>()[0];
  metrics["min_reward"] = -host.data_ptr<float>()[1];
}

MetricValues PreferencePass::MetricsOf(const NamedSums& sums, const BatchTotals& totals) const {
  MetricValues metrics;
  if (FactsOf(session_.config()).head == HeadKind::kScore) {
    for (const char* name : {"mean_reward", "accuracy", "margin"}) metrics[name] = sums.at(name);
    return metrics;
  }
  for (const std::string& name : trainer_.objective().SumNames(0)) {
    if (name != "loss") metrics[name] = sums.at(name);
  }
  if (FactsOf(session_.config()).records != Records::kJudged) return metrics;
  const AnswerTotals& kinds = totals.facts.Get<AnswerTotals>();
  if (ReportsKl(session_.config())) metrics["kl"] = kinds.kl;
  // Of a kind of answer that the batch lacks there is no mean.
  const auto drop = [&](const std::string& kind) {
    for (const char* name : {"rewards/", "logps/", "logits/"}) metrics.erase(name + kind);
    metrics.erase("rewards/margins");
  };
  if (kinds.desirable == 0) drop("chosen");
  if (kinds.desirable == totals.samples) drop("rejected");
  return metrics;
}

double PreferencePass::Pass(const RowSource& rows, std::span<const int64_t> chosen, int64_t step) {
  Prepared prepared = Prepare(rows, chosen, train_tables_, step, /*trains=*/true);
  const BatchTotals totals = prepared.totals;
  PassBatch batch(std::move(prepared.inputs), OptionsOf(totals));
  const double loss = trainer_.Pass(batch);
  metrics_ = MetricsOf(trainer_.sums(), totals);
  AddExtremes(batch.result(), metrics_);
  return loss;
}

Evaluation PreferencePass::Evaluate(const RowSource& rows) {
  const int64_t global_batch = session_.config().run().global_batch();
  Evaluation evaluation;
  MetricMeans means;
  double samples = 0, loss = 0;
  for (int64_t first = 0; first < rows.size(); first += global_batch) {
    std::vector<int64_t> chosen(static_cast<size_t>(std::min(global_batch, rows.size() - first)));
    std::iota(chosen.begin(), chosen.end(), first);
    Prepared prepared = Prepare(rows, chosen, valid_tables_, first / global_batch + 1, /*trains=*/false);
    PassOptions options = OptionsOf(prepared.totals);
    options.differentiate = false;
    options.dropout = std::nullopt;
    PassBatch batch(std::move(prepared.inputs), options);
    session_.RunForward(batch);
    const NamedSums sums = session_.ReduceSums(batch.result(), options.objective->SumNames(0));
    const AnswerTotals& kinds = prepared.totals.facts.Get<AnswerTotals>();
    const auto count = static_cast<double>(prepared.totals.samples);
    samples += count;
    loss += count * sums.at("loss");
    const bool pairs = FactsOf(session_.config()).records == Records::kPairs;
    const double good = pairs ? count : static_cast<double>(kinds.desirable);
    MetricValues metrics = MetricsOf(sums, prepared.totals);
    AddExtremes(batch.result(), metrics);
    means.Add(metrics, {.all = count,
                        .chosen = good,
                        .rejected = pairs ? count : count - good,
                        .chosen_tokens = static_cast<double>(kinds.chosen),
                        .rejected_tokens = static_cast<double>(kinds.rejected)});
  }
  evaluation.loss = loss / samples;
  evaluation.metrics = means.Take();
  return evaluation;
}

}  // namespace trireme
