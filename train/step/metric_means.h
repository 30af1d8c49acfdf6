// MetricMeans: metrics of batches combined into those of all their answers: each counts by the answers it is a mean of,
// so that a batch without rejected answers says nothing about them.
#pragma once

#include <map>
#include <string>

#include "train/report/logged_step.h"

namespace trireme {

struct AnswerCounts {
  double all = 0;  // samples
  double chosen = 0;
  double rejected = 0;
  double chosen_tokens = 0;  // trained labels
  double rejected_tokens = 0;
};

class MetricMeans {
 public:
  void Add(const MetricValues& metrics, const AnswerCounts& counts);
  MetricValues Take() const;

 private:
  std::map<std::string, double> sums_, weights_;
  MetricValues extremes_;  // the lowest and the highest score, which are no means
};

}  // namespace trireme
