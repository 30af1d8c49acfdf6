// RolloutSource: where completions with their rewards come from: a file, or the model itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/report/logged_step.h"
#include "train/rollouts/rollout.h"

namespace trireme {

class RolloutSource {
 public:
  virtual ~RolloutSource() = default;
  // The completions of these prompts, groups side by side, for the updates that begin with this step; the same on every
  // rank. Collective.
  virtual std::vector<Rollout> Take(int64_t step, const std::vector<int64_t>& prompts) = 0;
  // Whether the last ones were written by a model, and belong into rollouts.jsonl.
  virtual bool sampled() const { return true; }
  // The names of the rewards that each completion has.
  virtual const std::vector<std::string>& names() const = 0;
  // What it reports of the last sampling beside the rewards.
  virtual MetricValues metrics() const { return {}; }
};

}  // namespace trireme
