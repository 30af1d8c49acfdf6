// The policy losses of GRPO and its family: token losses of the ratio of new to old probability and of the completion's
// advantage (AnswerFacts::values), or the token's own, with the KL divergence from a reference. Facts of tokens are in
// policy_facts.h. Sums: `loss`, `entropy` and TRL's other metrics, all normalised by the batch's totals alone.
#include <ATen/ATen.h>

#include <memory>

#include "parallel/objectives/answer_facts.h"
#include "parallel/objectives/log_probs.h"
#include "parallel/objectives/objective_options.h"
#include "parallel/objectives/policy_facts.h"
#include "parallel/objectives/policy_terms.h"

namespace trireme {
namespace {

constexpr char kLow[] = "clip_ratio/low_mean", kHigh[] = "clip_ratio/high_mean", kRegion[] = "clip_ratio/region_mean";
constexpr char kCispoClips[] = "cispo_clip_ratio", kSamplerRatio[] = "sampling/importance_sampling_ratio/mean";

class PolicyObjective : public LogProbObjective {
 public:
  PolicyObjective(const PolicyLossOptions& options, const PolicyRules& rules)
      : options_(options),
        loss_(rules.loss),
        ratio_of_(rules.ratio),
        kl_(rules.kl),
        corrects_(options_.sampler_correction != SamplerRatio::kNone) {}

  std::vector<std::string> SumNames(int64_t /*mtp_depths*/) const override {
    std::vector<std::string> names = {"loss", "entropy"};
    if (kl_) names.emplace_back("kl");
    if (loss_.term == PolicyTerm::kClipped) names.insert(names.end(), {kLow, kHigh, kRegion});
    if (loss_.term == PolicyTerm::kCispo) names.emplace_back(kCispoClips);
    if (corrects_) names.emplace_back(kSamplerRatio);
    return names;
  }

 protected:
  double temperature() const override { return options_.temperature; }
  bool wants_entropies() const override { return true; }
  double EntropyWeight(const PassContext& pass) const override {
    return -options_.entropy_coef * pass.totals.per_trained();
  }
  at::Tensor KnownWeights(const TrainedTokens& /*tokens*/, const PassContext& /*pass*/) const override { return {}; }
  at::Tensor Weigh(const LabelLogProbs& found) const override;

 private:
  // What is known of the trained tokens, each [trained] fp32, and of completions, [documents].
  struct Facts {
    at::Tensor counts, advantages;         // of completions: tokens, at least 1
    at::Tensor old, ratios, token_ratios;  // ratios: of completions, or of tokens
    at::Tensor token_advantages, weights;  // weights: what each token's loss counts
  };

  Facts FactsOf(const LabelLogProbs& found) const;
  at::Tensor WeightsOf(const LabelLogProbs& found, const at::Tensor& counts) const;
  TermLoss Term(const at::Tensor& ratios, const at::Tensor& advantages, const at::Tensor& log_probs) const;
  at::Tensor SamplerRatios(const LabelLogProbs& found, const at::Tensor& old) const;
  void AddClips(const LabelLogProbs& found, const Facts& facts) const;
  void AddMean(const LabelLogProbs& found, const char* name, const at::Tensor& values, bool of_completions) const;
  at::Tensor Chained(const LabelLogProbs& found, const Facts& facts, const at::Tensor& by_ratio) const;

  const PolicyLossOptions options_;
  const PolicyLossKind loss_;
  const RatioOf ratio_of_;
  const bool kl_, corrects_;
};

at::Tensor Selected(const at::Tensor& by_label, const LabelLogProbs& found) {
  return by_label.index_select(0, found.tokens.positions);
}

PolicyObjective::Facts PolicyObjective::FactsOf(const LabelLogProbs& found) const {
  const AnswerFacts& answers = found.pass.input.facts.Get<AnswerFacts>();
  const PolicyFacts& known = found.pass.input.facts.Get<PolicyFacts>();
  const at::TensorOptions options = found.values.options();
  Facts facts;
  facts.counts = at::tensor(answers.tokens, at::kLong).to(options).clamp_min(1);
  facts.advantages = at::tensor(answers.values, at::kDouble).to(options);
  facts.old = known.old.defined() ? Selected(known.old, found) : found.values;
  const at::Tensor log_ratios = found.values - facts.old;
  if (ratio_of_ == RatioOf::kToken) {
    facts.ratios = facts.token_ratios = log_ratios.exp();
  } else {
    const at::Tensor sums = found.SumsBySequence(log_ratios);
    facts.ratios = (ratio_of_ == RatioOf::kMean ? sums / facts.counts : sums).exp();
    facts.token_ratios = found.OfEachToken(facts.ratios);
  }
  facts.token_advantages =
      known.advantages.defined() ? Selected(known.advantages, found) : found.OfEachToken(facts.advantages);
  facts.weights = WeightsOf(found, facts.counts);
  return facts;
}

at::Tensor PolicyObjective::WeightsOf(const LabelLogProbs& found, const at::Tensor& counts) const {
  const BatchTotals& totals = found.pass.totals;
  const double window = totals.facts.Get<PolicyTotals>().window_tokens;
  const auto all = [&](double weight) { return at::full_like(found.values, weight); };
  switch (loss_.mean) {
    case PolicyMean::kCompletionTokens:
      return found.OfEachToken(counts.reciprocal() * totals.per_sample());
    case PolicyMean::kTokens:
      return all(totals.per_trained());
    case PolicyMean::kLongest:
      return all(totals.per_sample() / static_cast<double>(options_.max_new_tokens));
    case PolicyMean::kWindow:
      return all(window > 0 ? 1 / window : 0);
    case PolicyMean::kCompletions:
      return all(totals.per_sample());
  }
  return {};
}

TermLoss PolicyObjective::Term(const at::Tensor& ratios, const at::Tensor& advantages,
                               const at::Tensor& log_probs) const {
  switch (loss_.term) {
    case PolicyTerm::kClipped:
      return ClippedTerm(ratios, advantages,
                         {.low = 1 - options_.epsilon, .high = 1 + options_.epsilon_high, .most = options_.delta});
    case PolicyTerm::kCispo:
      return CispoTerm(ratios, advantages, log_probs, {.low = 0, .high = options_.epsilon_high});
    case PolicyTerm::kSapo:
      return SapoTerm(ratios, advantages,
                      {.positive = options_.sapo_temperature_pos, .negative = options_.sapo_temperature_neg});
  }
  return {};
}

// What each token's loss is multiplied by for having been drawn from other probabilities. Tokens without any: 1.
at::Tensor PolicyObjective::SamplerRatios(const LabelLogProbs& found, const at::Tensor& old) const {
  const SamplerRatio how = options_.sampler_correction;
  const bool whole = how == SamplerRatio::kSequenceTruncate || how == SamplerRatio::kSequenceMask;
  at::Tensor differences = (old - Selected(found.pass.input.facts.Get<PolicyFacts>().sampled, found)).nan_to_num(0.0);
  if (whole) differences = found.SumsBySequence(differences);
  at::Tensor ratios = differences.exp();
  const double low = options_.sampler_clip_min, high = options_.sampler_clip_max;
  if (how == SamplerRatio::kTokenTruncate || how == SamplerRatio::kSequenceTruncate) {
    ratios = ratios.clamp(low, high);
  } else {
    ratios = ratios * ratios.ge(low).logical_and(ratios.le(high)).to(ratios.dtype());
  }
  AddMean(found, kSamplerRatio, ratios, whole);
  return whole ? found.OfEachToken(ratios) : ratios;
}

// The mean over all tokens, or over all completions, of which each context rank has the same: one speaks for all.
void PolicyObjective::AddMean(const LabelLogProbs& found, const char* name, const at::Tensor& values,
                              bool of_completions) const {
  const BatchTotals& totals = found.pass.totals;
  const bool speaks = !of_completions || found.head.context.rank() == 0;
  const double weight = of_completions ? totals.per_sample() : totals.per_trained();
  found.pass.output->Add(name, values.sum() * (speaks ? weight : 0));
}

void PolicyObjective::AddClips(const LabelLogProbs& found, const Facts& facts) const {
  const bool whole = ratio_of_ != RatioOf::kToken;
  const at::Tensor& advantages = whole ? facts.advantages : facts.token_advantages;
  const auto add = [&](const char* name, const at::Tensor& clipped) {
    AddMean(found, name, clipped.to(at::kFloat), whole);
  };
  if (loss_.term == PolicyTerm::kCispo) {
    add(kCispoClips, facts.ratios.gt(options_.epsilon_high).logical_and(advantages.gt(0)));
  }
  if (loss_.term != PolicyTerm::kClipped) return;
  const at::Tensor ratios = options_.delta > 0 ? facts.ratios.clamp_max(options_.delta) : facts.ratios;
  const at::Tensor low = ratios.lt(1 - options_.epsilon).logical_and(advantages.lt(0));
  const at::Tensor high = ratios.gt(1 + options_.epsilon_high).logical_and(advantages.gt(0));
  add(kLow, low);
  add(kHigh, high);
  add(kRegion, low.logical_or(high));
}

// From derivatives by each token's ratio to those by its log-probability. Collective over head.context.
at::Tensor PolicyObjective::Chained(const LabelLogProbs& found, const Facts& facts, const at::Tensor& by_ratio) const {
  if (ratio_of_ == RatioOf::kToken) return by_ratio * facts.ratios;
  const at::Tensor sums = found.SumsBySequence(by_ratio) * facts.ratios;
  return found.OfEachToken(ratio_of_ == RatioOf::kMean ? sums / facts.counts : sums);
}

at::Tensor PolicyObjective::Weigh(const LabelLogProbs& found) const {
  const Facts facts = FactsOf(found);
  TermLoss term = Term(facts.token_ratios, facts.token_advantages, found.values);
  at::Tensor factors = facts.weights;
  if (options_.top_entropy_quantile < 1) {
    factors =
        factors * found.entropies.ge(found.pass.totals.facts.Get<PolicyTotals>().entropy_bound).to(factors.dtype());
  }
  if (corrects_) factors = factors * SamplerRatios(found, facts.old);
  at::Tensor loss = factors * term.value, by_ratio = factors * term.by_ratio, direct = factors * term.by_log_prob;
  if (kl_) {
    const at::Tensor apart = Selected(found.pass.input.facts.Get<PolicyFacts>().reference, found) - found.values;
    const at::Tensor k3 = apart.exp() - apart - 1, weights = facts.weights * options_.beta;
    const at::Tensor ratios = options_.bias_correction_kl ? facts.token_ratios : at::ones_like(k3);
    loss = loss + weights * k3 * ratios;
    direct = direct + weights * ratios * (1 - apart.exp());
    if (options_.bias_correction_kl) by_ratio = by_ratio + weights * k3;
    AddMean(found, "kl", k3 * ratios, /*of_completions=*/false);
  }
  found.pass.output->Add("loss", loss.sum() + found.entropies.sum() * EntropyWeight(found.pass));
  AddMean(found, "entropy", found.entropies, /*of_completions=*/false);
  AddClips(found, facts);
  return found.pass.options.differentiate ? direct + Chained(found, facts, by_ratio) : at::Tensor();
}

}  // namespace

std::unique_ptr<Objective> MakeGrpo(const ObjectiveOptions& options) {
  return std::make_unique<PolicyObjective>(options.policy, GrpoRules(options.policy));
}

std::unique_ptr<Objective> MakeRloo(const ObjectiveOptions& options) {
  return std::make_unique<PolicyObjective>(options.policy, RlooRules(options.policy));
}

std::unique_ptr<Objective> MakeReinforce(const ObjectiveOptions& options) {
  return std::make_unique<PolicyObjective>(options.policy, ReinforceRules(options.policy));
}

std::unique_ptr<Objective> MakePpoPolicy(const ObjectiveOptions& options) {
  return std::make_unique<PolicyObjective>(options.policy, PpoRules(options.policy));
}

}  // namespace trireme
