// KTO: single answers that are good or bad, relative to a reference and to how far the policy is from it
// (AnswerTotals::kl). Sums: `loss` and TRL's metrics; those of a kind of answer that the batch lacks are 0.
#include <memory>

#include "parallel/objectives/answer_objective.h"
#include "parallel/objectives/objective_options.h"

namespace trireme {
namespace {

class Kto : public AnswerObjective {
 public:
  explicit Kto(const AnswerLossOptions& options)
      : options_(options), apart_(options.losses == std::vector<std::string>{"apo_zero_unpaired"}) {}
  std::vector<std::string> SumNames(int64_t /*mtp_depths*/) const override {
    return {"loss",         "rewards/chosen", "rewards/rejected", "rewards/margins",
            "logps/chosen", "logps/rejected", "logits/chosen",    "logits/rejected"};
  }

 protected:
  AnswerGradient Differentiate(const Answers& answers) const override {
    AnswerGradient gradient(answers.size());
    for (const std::string& name : SumNames(0)) gradient.sums[name] = 0;
    for (size_t i = 0; i < answers.size(); ++i) AddAnswer(answers, i, gradient);
    return gradient;
  }

 private:
  // 1 - σ(beta · how much better than the reference it is, in its own direction).
  void AddAnswer(const Answers& answers, size_t i, AnswerGradient& gradient) const {
    const AnswerTotals& kinds = answers.kinds;
    const bool good = answers.facts.values[i] > 0.5;
    const double ratio = answers.log_probs[i] - answers.reference(i), kl = apart_ ? 0 : kinds.kl;
    const double direction = good ? 1 : -1;
    const double weight =
        (good ? options_.desirable_weight : options_.undesirable_weight) * answers.totals.per_sample();
    const double value = Sigmoid(options_.pair.beta * direction * (ratio - kl));
    gradient.sums["loss"] += weight * (1 - value);
    gradient.log_probs[i] = -weight * options_.pair.beta * direction * value * (1 - value);
    const double share = BatchTotals::Reciprocal(good ? kinds.desirable : answers.totals.samples - kinds.desirable);
    const std::string kind = good ? "chosen" : "rejected";
    gradient.sums["rewards/" + kind] += share * options_.pair.beta * ratio;
    gradient.sums["rewards/margins"] += direction * share * options_.pair.beta * ratio;
    gradient.sums["logps/" + kind] += share * answers.log_probs[i];
    gradient.sums["logits/" + kind] += (good ? kinds.per_chosen() : kinds.per_rejected()) * answers.logits[i];
  }

  const AnswerLossOptions options_;
  const bool apart_;  // each answer for itself: without the KL
};

}  // namespace

std::unique_ptr<Objective> MakeKto(const ObjectiveOptions& options) { return std::make_unique<Kto>(options.answers); }

}  // namespace trireme
