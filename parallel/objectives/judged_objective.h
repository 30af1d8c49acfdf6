// JudgedObjective: single answers that are good or bad, relative to a reference. What an answer costs is each
// objective's own (kto.cc, bco.cc). Sums: `loss` and TRL's metrics; those of a kind of answer that the batch lacks are
// 0.
#pragma once

#include <string>
#include <vector>

#include "parallel/objectives/answer_objective.h"
#include "parallel/objectives/objective_options.h"

namespace trireme {

struct JudgedLoss {
  double value = 0;
  double by_log_ratio = 0;  // derivative
};

class JudgedObjective : public AnswerObjective {
 public:
  // beta: what a log-ratio is multiplied by to be a reward.
  explicit JudgedObjective(double beta) : beta_(beta) {}
  std::vector<std::string> SumNames(int64_t mtp_depths) const override;

 protected:
  // Of one answer, by its log-probability over the reference's; the loss is the mean over the batch.
  virtual JudgedLoss LossOf(double log_ratio, bool good, const AnswerTotals& batch) const = 0;
  AnswerGradient Differentiate(const Answers& answers) const override;
  double beta() const { return beta_; }

 private:
  void AddAnswer(const Answers& answers, size_t i, AnswerGradient& gradient) const;

  const double beta_;
};

}  // namespace trireme
