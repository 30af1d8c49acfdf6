// MeanLoss: the mean of the steps' losses, and of what else their objectives report, since it was last taken, each step
// counting once, as Hugging Face's trainer and Megatron log it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "train/report/logged_step.h"

namespace trireme {

class MeanLoss {
 public:
  void Add(const LoggedStep& step);
  // Replaces the line's losses with the means, and restarts. Steps whose loss is not finite are
  // excluded; if all were, the line keeps its own loss.
  void Take(LoggedStep& line);

 private:
  int64_t steps_ = 0;
  double loss_ = 0;
  std::vector<double> mtp_loss_;
  std::map<std::string, std::pair<int64_t, double>> metrics_;  // steps that had it, and their sum
};

}  // namespace trireme
