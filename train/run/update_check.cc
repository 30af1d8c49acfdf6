#include "train/run/update_check.h"

#include <cmath>

#include "core/base/error.h"

namespace trireme {

std::string WhyNoUpdate(const Config& config, int64_t step, double loss, const GradientReport& report) {
  if (report.finite && std::isfinite(loss)) return {};
  const std::string why = report.finite ? Concat("the loss is ", loss) : "gradient of " + report.source;
  if (config.optimizer().update() == UPDATE_IN_BACKWARD) {
    throw RuntimeError("step ", step, ": not finite: ", why,
                       "; with optimizer.update in_backward the weights in memory were updated by it, and nothing is "
                       "saved: go on from the last checkpoint with a lower optimizer.lr or without this option");
  }
  if (config.run().on_nonfinite() == ON_NONFINITE_SKIP) return why;
  throw RuntimeError("step ", step, ": not finite: ", why,
                     "; nothing was updated. Check the data of this step, lower optimizer.lr, or set "
                     "run.on_nonfinite to skip");
}

}  // namespace trireme
