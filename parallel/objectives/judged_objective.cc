#include "parallel/objectives/judged_objective.h"

namespace trireme {

std::vector<std::string> JudgedObjective::SumNames(int64_t /*mtp_depths*/) const {
  return {"loss",         "rewards/chosen", "rewards/rejected", "rewards/margins",
          "logps/chosen", "logps/rejected", "logits/chosen",    "logits/rejected"};
}

AnswerGradient JudgedObjective::Differentiate(const Answers& answers) const {
  AnswerGradient gradient(answers.size());
  for (const std::string& name : SumNames(0)) gradient.sums[name] = 0;
  for (size_t i = 0; i < answers.size(); ++i) AddAnswer(answers, i, gradient);
  return gradient;
}

void JudgedObjective::AddAnswer(const Answers& answers, size_t i, AnswerGradient& gradient) const {
  const AnswerTotals& kinds = answers.kinds;
  const bool good = answers.facts.values[i] > 0.5;
  const double ratio = answers.log_probs[i] - answers.reference(i), per_answer = answers.totals.per_sample();
  const JudgedLoss loss = LossOf(ratio, good, kinds);
  gradient.sums["loss"] += per_answer * loss.value;
  gradient.log_probs[i] = per_answer * loss.by_log_ratio;
  const double share = BatchTotals::Reciprocal(good ? kinds.desirable : answers.totals.samples - kinds.desirable);
  const std::string kind = good ? "chosen" : "rejected";
  gradient.sums["rewards/" + kind] += share * beta_ * ratio;
  gradient.sums["rewards/margins"] += (good ? 1 : -1) * share * beta_ * ratio;
  gradient.sums["logps/" + kind] += share * answers.log_probs[i];
  gradient.sums["logits/" + kind] += (good ? kinds.per_chosen() : kinds.per_rejected()) * answers.logits[i];
}

}  // namespace trireme
