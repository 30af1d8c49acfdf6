// Replay: samplings read from a file of rollouts, in its order, again and again. The prompts are the file's.
#pragma once

#include <string>
#include <vector>

#include "core/config.pb.h"
#include "data/row_views.h"
#include "train/rollouts/advantages.h"
#include "train/rollouts/rollout_file.h"
#include "train/rollouts/rollout_source.h"

namespace trireme {

class Replay : public RolloutSource {
 public:
  // rl.rollouts. Refuses groups that have not rl.group completions of one prompt, and rewards that are missing.
  Replay(const Config& config, const RolloutReading& reading);
  // The same with what was read from a file of this name.
  Replay(const Config& config, std::vector<Rollout> rollouts, const std::string& path);

  int64_t groups() const { return std::ssize(rollouts_) / group_; }
  // The prompts, one row per group.
  Rows Prompts() const;
  std::vector<Rollout> Take(int64_t step, const std::vector<int64_t>& prompts) override;
  // rl.rewards, or all that the file has.
  const std::vector<std::string>& names() const override { return names_; }

 private:
  void CheckGroups(const std::string& path) const;
  void CheckForPpo(const std::string& path) const;
  void CheckRewards(const std::string& path) const;

  const int64_t group_;
  std::vector<Rollout> rollouts_;
  std::vector<std::string> names_;
};

// The rewards of rollouts by these names; weights: empty for 1 each.
RewardTable TableOf(const std::vector<Rollout>& rollouts, const std::vector<std::string>& names,
                    const std::vector<double>& weights, int64_t group);

}  // namespace trireme
