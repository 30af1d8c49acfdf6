// PairObjective: a chosen answer against a rejected one: a weighted sum of pair losses (pair_losses.h), and the chosen
// answers' negative log-likelihood beside it. dpo.cc, cpo.cc and orpo.cc say which. Sums: `loss` and TRL's metrics.
#pragma once

#include <string>
#include <vector>

#include "parallel/objectives/answer_objective.h"
#include "parallel/objectives/objective_options.h"

namespace trireme {

struct WeightedPairLoss {
  PairLoss loss;
  double weight = 1;
};

struct PairObjectiveOptions {
  std::vector<WeightedPairLoss> losses = {};
  PairLossOptions how = {};
  double nll_weight = 0;  // of the mean negative log-likelihood of the chosen answers' trained labels
  bool odds = false;      // ORPO's odds ratio beside the losses
  bool means = false;     // metrics are of log-probabilities per token
};

class PairObjective : public AnswerObjective {
 public:
  explicit PairObjective(PairObjectiveOptions options) : options_(std::move(options)) {}
  std::vector<std::string> SumNames(int64_t mtp_depths) const override;

 protected:
  AnswerGradient Differentiate(const Answers& answers) const override;

 private:
  void AddPair(const Answers& answers, size_t chosen, AnswerGradient& gradient) const;

  const PairObjectiveOptions options_;
};

// The losses of the list that the options name, or `otherwise` where they name none.
std::vector<WeightedPairLoss> LossesOf(const AnswerLossOptions& options, std::span<const PairLoss> list,
                                       const std::string& otherwise);

}  // namespace trireme
