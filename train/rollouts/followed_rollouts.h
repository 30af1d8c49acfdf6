// FollowedRollouts: samplings from a directory that another sampler fills while the run trains: the completions of the
// updates that begin with step N are in N.jsonl, which appears under that name when it is complete. Rank 0 waits for it
// and reads it. Prompts and rewards are the files'. No torch.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/job.h"
#include "core/config.pb.h"
#include "train/rollouts/replay.h"

namespace trireme {

// Whether rl.rollouts is a directory.
bool FollowsRollouts(const Config& config);
// Refuses a directory with JSON lines that are not named after a step.
void RefuseOtherNames(const std::filesystem::path& directory);

class FollowedRollouts : public RolloutSource {
 public:
  // `config` and `job` outlive it.
  FollowedRollouts(const Config& config, RolloutReading reading, Job& job);
  // Waits for rl.sampler.seconds at most. `prompts` only says how many.
  std::vector<Rollout> Take(int64_t step, const std::vector<int64_t>& prompts) override;
  const std::vector<std::string>& names() const override { return names_; }
  MetricValues metrics() const override { return metrics_; }

 private:
  // The text of a sampling's file, which it waits for.
  std::string Await(const std::filesystem::path& path) const;
  // Refuses completions that this run's weights cannot have made yet, and another number of prompts.
  void Check(const std::vector<Rollout>& rollouts, int64_t step, int64_t prompts, const std::string& path) const;

  const Config& config_;
  const RolloutReading reading_;
  Job& job_;
  std::vector<std::string> names_;
  MetricValues metrics_;
};

}  // namespace trireme
