#include "train/rollouts/replay.h"

#include <limits>
#include <set>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "stages/stage.h"

namespace trireme {

Replay::Replay(const Config& config, const RolloutReading& reading)
    : Replay(config, ReadRollouts(config.rl().rollouts(), reading), config.rl().rollouts()) {}

Replay::Replay(const Config& config, std::vector<Rollout> rollouts, const std::string& path)
    : group_(config.rl().group()),
      rollouts_(std::move(rollouts)),
      names_(config.rl().rewards().begin(), config.rl().rewards().end()) {
  CheckGroups(path);
  for (Rollout& rollout : rollouts_) {
    if (!rollout.rewards.empty()) rollout.advantage.reset();  // what another run made of them
  }
  if (names_.empty()) {
    std::set<std::string> found;
    for (const Rollout& rollout : rollouts_) {
      for (const auto& [name, reward] : rollout.rewards) found.insert(name);
    }
    names_.assign(found.begin(), found.end());
  }
  if (FactsOf(config).baseline == Baseline::kValues) CheckForPpo(path);
  CheckRewards(path);
  if (config.rl().sampler_correction() == CORRECTION_NONE) return;
  for (size_t i = 0; i < rollouts_.size(); ++i) {
    if (!rollouts_[i].log_probs.empty()) continue;
    throw InputError(path, ":", i + 1, ": has no logprobs, which rl.sampler_correction compares with the trainer's");
  }
}

void Replay::CheckGroups(const std::string& path) const {
  for (size_t first = 0; first < rollouts_.size(); first += static_cast<size_t>(group_)) {
    for (size_t i = first; i < first + static_cast<size_t>(group_); ++i) {
      const bool same = i < rollouts_.size() && IsSameGroup(rollouts_[first], rollouts_[i]) &&
                        rollouts_[first].prompt_ids == rollouts_[i].prompt_ids;
      if (same) continue;
      throw InputError(path, ": the group of line ", first + 1, " has ", i - first,
                       " completions of one prompt; wanted rl.group = ", group_, " in lines one after the other");
    }
  }
}

void Replay::CheckForPpo(const std::string& path) const {
  for (size_t i = 0; i < rollouts_.size(); ++i) {
    if (!rollouts_[i].written.empty()) {
      throw InputError(path, ":", i + 1, ": has env_mask; stage ppo trains completions of one turn");
    }
    if (rollouts_[i].advantage) {
      throw InputError(path, ":", i + 1,
                       ": has an advantage and no rewards; stage ppo makes advantages of rewards and values");
    }
  }
}

void Replay::CheckRewards(const std::string& path) const {
  for (size_t i = 0; i < rollouts_.size(); ++i) {
    if (rollouts_[i].advantage) continue;
    if (names_.empty()) {
      throw InputError(path, ":", i + 1, ": has neither rewards nor an advantage; wanted \"rewards\": {NAME: NUMBER}");
    }
    for (const std::string& name : names_) {
      if (rollouts_[i].rewards.contains(name)) continue;
      std::vector<std::string> has;
      for (const auto& [other, reward] : rollouts_[i].rewards) has.push_back(other);
      throw InputError(path, ":", i + 1, ": has no reward '", name, "'; it has ", has.empty() ? "none" : Join(has),
                       ". Write null where it was not given, or leave it out of rl.rewards");
    }
  }
}

Rows Replay::Prompts() const {
  std::vector<Row> rows;
  for (size_t first = 0; first < rollouts_.size(); first += static_cast<size_t>(group_)) {
    const std::vector<int64_t>& prompt = rollouts_[first].prompt_ids;
    rows.push_back({.input_ids = prompt, .labels = std::vector<int64_t>(prompt.size(), kNotTrained)});
  }
  return std::make_shared<RowList>(std::move(rows));
}

std::vector<Rollout> Replay::Take(int64_t /*step*/, const std::vector<int64_t>& prompts) {
  std::vector<Rollout> taken;
  for (const int64_t group : prompts) {
    const auto first = rollouts_.begin() + group * group_;
    taken.insert(taken.end(), first, first + group_);
  }
  return taken;
}

RewardTable TableOf(const std::vector<Rollout>& rollouts, const std::vector<std::string>& names,
                    const std::vector<double>& weights, int64_t group) {
  RewardTable table{.names = names, .weights = weights, .rewards = {}, .group = group};
  table.weights.resize(names.size(), 1);
  for (const std::string& name : names) {
    std::vector<double>& column = table.rewards.emplace_back();
    for (const Rollout& rollout : rollouts) {
      const auto found = rollout.rewards.find(name);
      column.push_back(found == rollout.rewards.end() ? std::numeric_limits<double>::quiet_NaN() : found->second);
    }
  }
  return table;
}

}  // namespace trireme
