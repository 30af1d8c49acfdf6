#include "train/run/data_extent.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "core/base/error.h"
#include "core/base/rounding.h"
#include "core/base/text.h"
#include "stages/policy_check.h"
#include "stages/retrieval_check.h"
#include "stages/stage.h"
#include "train/rollouts/followed_rollouts.h"
#include "train/step/batch_ramp.h"
#include "train/step/batch_sampler.h"

namespace trireme {

int64_t StepsPerEpoch(const Config& config, int64_t rows) {
  const int64_t batch = config.run().global_batch();
  if (!FactsOf(config).on_completions()) return DivideUp(rows, batch);
  return rows / PromptsPerSampling(config) * StepsPerSampling(config.rl());
}

int64_t TotalSteps(const Config& config, int64_t rows) {
  const RunConfig& run = config.run();
  if (run.steps() > 0) return run.steps();
  if (const BatchRamp ramp = BatchRampOf(run); ramp.start > 0 && rows > 0) {
    return BatchSampler({.rows = rows, .batch = ramp.batch, .ramp = ramp}).StepsOf(run.epochs());
  }
  return static_cast<int64_t>(std::ceil(run.epochs() * static_cast<double>(StepsPerEpoch(config, rows))));
}

DataExtent ExtentOf(const Config& config, const DataSets& data) {
  DataExtent extent{.samples = data.samples,
                    .rows = data.train->size(),
                    .valid_rows = data.valid ? data.valid->size() : 0,
                    .steps_per_epoch = StepsPerEpoch(config, data.train->size()),
                    .total_steps = TotalSteps(config, data.train->size())};
  if (config.data().streaming()) return extent;  // to count them would be to read them
  for (int64_t row = 0; row < extent.rows; ++row) {
    extent.tokens += data.train->Length(row);
    extent.trained_tokens += data.train->Trained(row);
    if (TrainsTexts(FactsOf(config))) extent.longest = std::max(extent.longest, data.train->Length(row));
  }
  return extent;
}

namespace {

// What a batch of packed sequences is in samples, which is what a batch is in systems that do not pack by themselves.
std::string PackedSamples(const DataExtent& extent, const Config& config) {
  if (FactsOf(config).on_completions() || !config.data().packing() || extent.samples <= extent.rows) return "";
  const double samples = static_cast<double>(extent.samples) / static_cast<double>(extent.rows) *
                         static_cast<double>(config.run().global_batch());
  return Concat(", ", std::llround(samples), " samples on average, because data.packing is on");
}

}  // namespace

std::string ToText(const DataExtent& extent, const Config& config) {
  std::ostringstream text;
  const bool policy = FactsOf(config).on_completions();
  text << std::fixed << std::setprecision(2) << "data: ";
  if (policy && FollowsRollouts(config)) {
    text << "completions of " << config.rl().rollouts() << ", as they come";
  } else if (config.data().streaming()) {
    text << "streamed, " << config.data().shuffle_buffer() << " records at a time";
  } else if (policy) {
    text << Counted(extent.rows, "prompt") << ", " << Counted(extent.tokens, "token");
  } else {
    text << Counted(extent.samples, "sample") << " in " << Counted(extent.rows, "sequence") << ", "
         << Counted(extent.tokens, "token") << ", " << extent.trained_tokens << " of them trained";
  }
  if (extent.valid_rows > 0)
    text << "; " << Counted(extent.valid_rows, policy ? "prompt" : "sequence") << " to evaluate on";
  if (const BatchRamp ramp = BatchRampOf(config.run()); ramp.start > 0) {
    text << "\nsteps: " << extent.total_steps << ", of " << ramp.start << " to " << ramp.batch
         << " sequences each: " << ramp.increment << " more at a time over the first "
         << Counted(ramp.samples, "sequence") << "\n";
    return text.str();
  }
  if (config.data().streaming()) {
    text << "\nsteps: " << extent.total_steps << ", " << Counted(config.run().global_batch(), "sequence")
         << " per step\n";
    return text.str();
  }
  text << "\nsteps: " << extent.total_steps << ", "
       << static_cast<double>(extent.total_steps) / static_cast<double>(extent.steps_per_epoch) << " epochs of "
       << Counted(extent.steps_per_epoch, "step") << ", "
       << Counted(config.run().global_batch(), policy ? "completion" : "sequence") << " per step"
       << PackedSamples(extent, config) << "\n";
  return text.str();
}

}  // namespace trireme
