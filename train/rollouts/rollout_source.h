// RolloutSource: where completions with their rewards come from: a file, the model itself, or a sampler outside.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "train/report/logged_step.h"
#include "train/rollouts/rollout.h"
#include "train/step/no_step.h"

namespace trireme {

class RewardSet;
class SamplingModel;

// Weights that a sampler outside this program has.
struct SharedWeights {
  int64_t step = 0;        // optimizer steps done
  std::string model = {};  // the name that requests use; empty: as configured
};

// Completions did not come from outside, on any rank, and nothing of their sampling was trained: the run can be saved.
class SamplerError : public NoStep {
 public:
  using NoStep::NoStep;
  const char* missing() const override { return "completions"; }
};

class RolloutSource {
 public:
  virtual ~RolloutSource() = default;
  // The completions of these prompts, groups side by side, for the updates that begin with this step; the same on every
  // rank. Collective.
  virtual std::vector<Rollout> Take(int64_t step, const std::vector<int64_t>& prompts) = 0;
  // Starts to sample those of coming updates, which Take then returns. The same on every rank; does not wait.
  virtual void Prepare(int64_t /*step*/, const std::vector<int64_t>& /*prompts*/) {}
  // What samplings that begin now are sampled with, where it is not the model itself.
  virtual void UseWeights(const SharedWeights& /*weights*/) {}
  // Whether the last ones were written by a model, and belong into rollouts.jsonl.
  virtual bool sampled() const { return true; }
  // The names of the rewards that each completion has.
  virtual const std::vector<std::string>& names() const = 0;
  // What it samples and rewards with, for evaluations to share; null: nothing.
  virtual std::shared_ptr<SamplingModel> model() const { return nullptr; }
  virtual std::shared_ptr<const RewardSet> rewards() const { return nullptr; }
  // What it reports of the last sampling beside the rewards.
  virtual MetricValues metrics() const { return {}; }
};

}  // namespace trireme
