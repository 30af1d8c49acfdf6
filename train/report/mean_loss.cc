#include "train/report/mean_loss.h"

#include <cmath>

namespace trireme {

void MeanLoss::Add(const LoggedStep& step) {
  if (!std::isfinite(step.loss)) return;
  ++steps_;
  loss_ += step.loss;
  mtp_loss_.resize(step.mtp_loss.size());
  for (size_t depth = 0; depth < mtp_loss_.size(); ++depth) mtp_loss_[depth] += step.mtp_loss[depth];
  for (const auto& [name, value] : step.metrics) {
    auto& [steps, sum] = metrics_[name];
    ++steps;
    sum += value;
  }
}

void MeanLoss::Take(LoggedStep& line) {
  if (steps_ > 1 || (steps_ == 1 && !std::isfinite(line.loss))) {
    const auto count = static_cast<double>(steps_);
    line.loss = loss_ / count;
    line.mtp_loss = mtp_loss_;
    for (double& loss : line.mtp_loss) loss /= count;
    for (const auto& [name, found] : metrics_) line.metrics[name] = found.second / static_cast<double>(found.first);
  }
  *this = {};
}

}  // namespace trireme
