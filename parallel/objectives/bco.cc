// BCO (Binary Classifier Optimization): single answers that are good or bad. A classifier tells them apart by their
// rewards, beta · the log-ratio to the reference, above the mean reward of all answers that the run has trained so far.
// State: that mean and the number of answers it is of. Sums: JudgedObjective's, and `delta`, the mean.
#include <cmath>
#include <memory>

#include "parallel/objectives/judged_objective.h"

namespace trireme {
namespace {

class Bco : public JudgedObjective {
 public:
  using JudgedObjective::JudgedObjective;

  std::vector<std::string> SumNames(int64_t mtp_depths) const override {
    std::vector<std::string> names = JudgedObjective::SumNames(mtp_depths);
    names.emplace_back("delta");
    return names;
  }

  std::vector<double> InitialState() const override { return {0, 0}; }
  // A batch whose log-probabilities are not finite is none of the mean: no later batch would be finite.
  std::vector<double> NextState(const std::vector<double>& state, double mean_log_ratio,
                                int64_t answers) const override {
    if (answers == 0 || !std::isfinite(mean_log_ratio)) return state;
    const double mean = state.at(0), count = state.at(1) + static_cast<double>(answers);
    return {mean + (beta() * mean_log_ratio - mean) * static_cast<double>(answers) / count, count};
  }

 protected:
  JudgedLoss LossOf(double log_ratio, bool good, const AnswerTotals& batch) const override {
    const double direction = good ? 1 : -1, logit = direction * (beta() * log_ratio - batch.state.at(0));
    return {-LogSigmoid(logit), -direction * beta() * Sigmoid(-logit)};
  }

  AnswerGradient Differentiate(const Answers& answers) const override {
    AnswerGradient gradient = JudgedObjective::Differentiate(answers);
    gradient.sums["delta"] =
        answers.totals.per_sample() * static_cast<double>(answers.size()) * answers.kinds.state.at(0);
    return gradient;
  }
};

}  // namespace

std::unique_ptr<Objective> MakeBco(const ObjectiveOptions& options) {
  return std::make_unique<Bco>(options.answers.pair.beta);
}

}  // namespace trireme
