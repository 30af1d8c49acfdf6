// TokenLogProbs: only the log-probabilities of labels, and what else a pass wants of them (PassWants), at a
// temperature: for passes of the old policy and of the reference. Nothing is trained.
#pragma once

#include "parallel/objectives/log_probs.h"

namespace trireme {

class TokenLogProbs : public LogProbObjective {
 public:
  explicit TokenLogProbs(double temperature) : temperature_(temperature) {}
  std::vector<std::string> SumNames(int64_t /*mtp_depths*/) const override { return {}; }

 protected:
  double temperature() const override { return temperature_; }
  at::Tensor KnownWeights(const TrainedTokens& /*tokens*/, const PassContext& /*pass*/) const override { return {}; }
  at::Tensor Weigh(const LabelLogProbs& /*found*/) const override { return {}; }

 private:
  const double temperature_;
};

}  // namespace trireme
