// KTO: single answers that are good or bad, relative to a reference and to how far the policy is from it
// (AnswerTotals::kl): 1 - σ(beta · how much better than the reference it is, in its own direction).
#include <memory>

#include "parallel/objectives/judged_objective.h"

namespace trireme {
namespace {

class Kto : public JudgedObjective {
 public:
  explicit Kto(const AnswerLossOptions& options)
      : JudgedObjective(options.pair.beta),
        desirable_(options.desirable_weight),
        undesirable_(options.undesirable_weight),
        apart_(options.losses == std::vector<std::string>{"apo_zero_unpaired"}) {}

 protected:
  JudgedLoss LossOf(double log_ratio, bool good, const AnswerTotals& batch) const override {
    const double direction = good ? 1 : -1, weight = good ? desirable_ : undesirable_;
    const double value = Sigmoid(beta() * direction * (log_ratio - (apart_ ? 0 : batch.kl)));
    return {weight * (1 - value), -weight * beta() * direction * value * (1 - value)};
  }

 private:
  const double desirable_, undesirable_;
  const bool apart_;  // each answer for itself: without the KL
};

}  // namespace

std::unique_ptr<Objective> MakeKto(const ObjectiveOptions& options) { return std::make_unique<Kto>(options.answers); }

}  // namespace trireme
