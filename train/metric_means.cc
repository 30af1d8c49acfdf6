#include "train/metric_means.h"

namespace trireme {

void MetricMeans::Add(const Metrics& metrics, const AnswerCounts& counts) {
  for (const auto& [name, value] : metrics) {
    const double weight = name == "logits/chosen"       ? counts.chosen_tokens
                          : name == "logits/rejected"   ? counts.rejected_tokens
                          : name.ends_with("/chosen")   ? counts.chosen
                          : name.ends_with("/rejected") ? counts.rejected
                                                        : counts.all;
    sums_[name] += weight * value;
    weights_[name] += weight;
  }
}

Metrics MetricMeans::Take() const {
  Metrics means;
  for (const auto& [name, sum] : sums_) means[name] = sum / weights_.at(name);
  // The difference of the two means; batches that lack a kind of answer have no margin of their own.
  const auto chosen = means.find("rewards/chosen"), rejected = means.find("rewards/rejected");
  if (chosen != means.end() && rejected != means.end()) means["rewards/margins"] = chosen->second - rejected->second;
  return means;
}

}  // namespace trireme
