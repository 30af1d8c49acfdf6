// KTO: single answers that are good or bad, relative to a reference and to how far the policy is from it
// (BatchTotals::kl). Sums: `loss` and TRL's metrics; those of a kind of answer that the batch lacks are 0.
#include <memory>

#include "parallel/objectives/answer_objective.h"
#include "parallel/objectives/pair_losses.h"

namespace trireme {
namespace {

class Kto : public AnswerObjective {
 public:
  explicit Kto(const PreferenceConfig& config)
      : config_(config), apart_(config.loss_size() == 1 && config.loss(0) == "apo_zero_unpaired") {}
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
    const BatchTotals& totals = answers.totals;
    const bool good = answers.input.answers.values[i] > 0.5;
    const double ratio = answers.log_probs[i] - answers.reference(i), kl = apart_ ? 0 : totals.kl;
    const double direction = good ? 1 : -1;
    const double weight = (good ? config_.desirable_weight() : config_.undesirable_weight()) * totals.per_sample();
    const double value = Sigmoid(config_.beta() * direction * (ratio - kl));
    gradient.sums["loss"] += weight * (1 - value);
    gradient.log_probs[i] = -weight * config_.beta() * direction * value * (1 - value);
    const double share = BatchTotals::Reciprocal(good ? totals.desirable : totals.samples - totals.desirable);
    const std::string kind = good ? "chosen" : "rejected";
    gradient.sums["rewards/" + kind] += share * config_.beta() * ratio;
    gradient.sums["rewards/margins"] += direction * share * config_.beta() * ratio;
    gradient.sums["logps/" + kind] += share * answers.log_probs[i];
    gradient.sums["logits/" + kind] += (good ? totals.per_chosen() : totals.per_rejected()) * answers.logits[i];
  }

  const PreferenceConfig config_;
  const bool apart_;  // each answer for itself: without the KL
};

}  // namespace

std::unique_ptr<Objective> MakeKto(const Config& config) { return std::make_unique<Kto>(config.preference()); }

}  // namespace trireme
