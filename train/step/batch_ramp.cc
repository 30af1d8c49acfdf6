#include "train/step/batch_ramp.h"

#include "core/base/error.h"

namespace trireme {

// Each size is kept for as many sequences as the others, so that the last step up comes after `samples`.
int64_t BatchRamp::BatchAfter(int64_t consumed) const {
  if (start == 0 || consumed > samples) return batch;
  const double each = static_cast<double>(samples) / static_cast<double>((batch - start) / increment);
  return start + static_cast<int64_t>(static_cast<double>(consumed) / each) * increment;
}

BatchRamp BatchRampOf(const RunConfig& run) {
  if (run.batch_ramp_size() != 3) return {.batch = run.global_batch()};
  return {.batch = run.global_batch(),
          .start = run.batch_ramp(0),
          .increment = run.batch_ramp(1),
          .samples = run.batch_ramp(2)};
}

void CheckBatchRamp(const Config& config) {
  const RunConfig& run = config.run();
  if (run.batch_ramp().empty()) return;
  if (run.batch_ramp_size() != 3) {
    throw InputError("run.batch_ramp has ", run.batch_ramp_size(),
                     " numbers; wanted three: [START, INCREMENT, SAMPLES]");
  }
  const BatchRamp ramp = BatchRampOf(run);
  if (ramp.start >= ramp.batch || (ramp.batch - ramp.start) % ramp.increment != 0) {
    throw InputError("run.batch_ramp: from ", ramp.start, " by ", ramp.increment,
                     " does not lead to run.global_batch = ", ramp.batch,
                     "; wanted a smaller start, and an increment that divides the difference");
  }
  if (config.optimizer().update() == UPDATE_IN_BACKWARD) {
    throw InputError(
        "run.batch_ramp changes the number of micro batches, and optimizer.update in_backward wants one; remove "
        "one of them");
  }
}

}  // namespace trireme
