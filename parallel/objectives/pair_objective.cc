#include "parallel/objectives/pair_objective.h"

#include <algorithm>

#include "core/base/error.h"

namespace trireme {
namespace {

// Both documents of the pair whose chosen answer is this one.
PairScores ScoresOf(const Answers& answers, size_t chosen) {
  const AnswerFacts& facts = answers.facts;
  const size_t rejected = chosen + 1;
  PairScores pair{.chosen = answers.log_probs[chosen],
                  .rejected = answers.log_probs[rejected],
                  .reference_chosen = answers.reference(chosen),
                  .reference_rejected = answers.reference(rejected),
                  .chosen_tokens = facts.tokens[chosen],
                  .rejected_tokens = facts.tokens[rejected]};
  if (facts.rivals.empty()) return pair;
  pair.rival = facts.rivals[0][chosen];
  pair.chosen_rival = facts.rivals[1][chosen];
  pair.rejected_rival = facts.rivals[1][rejected];
  return pair;
}

}  // namespace

std::vector<std::string> PairObjective::SumNames(int64_t /*mtp_depths*/) const {
  std::vector<std::string> names = {
      "loss",         "rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins",
      "logps/chosen", "logps/rejected", "logits/chosen",    "logits/rejected"};
  if (options_.nll_weight != 0) names.push_back("nll_loss");
  if (options_.odds) names.insert(names.end(), {"log_odds_ratio", "log_odds_chosen"});
  return names;
}

AnswerGradient PairObjective::Differentiate(const Answers& answers) const {
  AnswerGradient gradient(answers.size());
  for (const std::string& name : SumNames(0)) gradient.sums[name] = 0;
  const std::vector<int64_t>& samples = answers.input.samples;
  TRIREME_CHECK(answers.size() % 2 == 0) << answers.size() << " answers make no pairs";
  for (size_t chosen = 0; chosen < answers.size(); chosen += 2) {
    TRIREME_CHECK(samples[chosen] == samples[chosen + 1]) << "a pair was parted";
    AddPair(answers, chosen, gradient);
  }
  return gradient;
}

void PairObjective::AddPair(const Answers& answers, size_t chosen, AnswerGradient& gradient) const {
  const PairScores pair = ScoresOf(answers, chosen);
  const double share = answers.totals.per_sample();
  const auto add = [&](const PairGradient& loss, double weight) {
    gradient.sums["loss"] += weight * share * loss.value;
    gradient.log_probs[chosen] += weight * share * loss.chosen;
    gradient.log_probs[chosen + 1] += weight * share * loss.rejected;
  };
  for (const auto& [loss, weight] : options_.losses) add(loss.function(pair, options_.how), weight);
  if (options_.odds) {
    const OddsRatio odds = OddsRatioLoss(pair, options_.how.beta);
    add(odds.loss, 1);
    gradient.sums["log_odds_ratio"] += share * odds.log_ratio;
    gradient.sums["log_odds_chosen"] += share * odds.log_odds;
  }
  if (options_.nll_weight != 0) {
    const double nll = -answers.learnt[chosen] * answers.kinds.per_chosen();
    gradient.sums["nll_loss"] += nll;
    gradient.sums["loss"] += options_.nll_weight * nll;
    gradient.learnt[chosen] -= options_.nll_weight * answers.kinds.per_chosen();
  }
  const double chosen_tokens = options_.means ? static_cast<double>(pair.chosen_tokens) : 1;
  const double rejected_tokens = options_.means ? static_cast<double>(pair.rejected_tokens) : 1;
  const double good = options_.how.beta * pair.chosen_ratio() / chosen_tokens;
  const double bad = options_.how.beta * pair.rejected_ratio() / rejected_tokens;
  gradient.sums["rewards/chosen"] += share * good;
  gradient.sums["rewards/rejected"] += share * bad;
  gradient.sums["rewards/accuracies"] += good > bad ? share : 0;
  gradient.sums["rewards/margins"] += share * (good - bad);
  gradient.sums["logps/chosen"] += share * pair.chosen / chosen_tokens;
  gradient.sums["logps/rejected"] += share * pair.rejected / rejected_tokens;
  gradient.sums["logits/chosen"] += answers.kinds.per_chosen() * answers.logits[chosen];
  gradient.sums["logits/rejected"] += answers.kinds.per_rejected() * answers.logits[chosen + 1];
}

std::vector<WeightedPairLoss> LossesOf(const AnswerLossOptions& options, std::span<const PairLoss> list,
                                       const std::string& otherwise) {
  std::vector<std::string> names = options.losses;
  if (names.empty()) names.push_back(otherwise);
  std::vector<WeightedPairLoss> losses;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = std::ranges::find_if(list, [&](const PairLoss& loss) { return names[i] == loss.name; });
    if (found == list.end())
      continue;  // sft, which is no function of pairs; others are refused before (CheckPreference)
    losses.push_back({*found, options.weights.empty() ? 1 : options.weights[i]});
  }
  return losses;
}

}  // namespace trireme
