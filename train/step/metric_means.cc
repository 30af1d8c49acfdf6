#include "train/step/metric_means.h"

#include <algorithm>

namespace trireme {

void MetricMeans::Add(const MetricValues& metrics, const AnswerCounts& counts) {
  for (const auto& [name, value] : metrics) {
    if (name == "min_reward" || name == "max_reward") {
      const auto [found, is_new] = extremes_.emplace(name, value);
      if (!is_new)
        found->second = name == "min_reward" ? std::min(found->second, value) : std::max(found->second, value);
      continue;
    }
    const double weight = name == "logits/chosen"       ? counts.chosen_tokens
                          : name == "logits/rejected"   ? counts.rejected_tokens
                          : name.ends_with("/chosen")   ? counts.chosen
                          : name.ends_with("/rejected") ? counts.rejected
                                                        : counts.all;
    sums_[name] += weight * value;
    weights_[name] += weight;
  }
}

MetricValues MetricMeans::Take() const {
  MetricValues means = extremes_;
  for (const auto& [name, sum] : sums_) means[name] = sum / weights_.at(name);
  // The difference of the two means; batches that lack a kind of answer have no margin of their own.
  const auto chosen = means.find("rewards/chosen"), rejected = means.find("rewards/rejected");
  if (chosen != means.end() && rejected != means.end()) means["rewards/margins"] = chosen->second - rejected->second;
  return means;
}

}  // namespace trireme
