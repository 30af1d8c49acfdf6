// Rollout: one completion of a prompt with what is known of it. Plain values; who sampled or rewarded it is no part of
// it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/rows.h"

namespace trireme {

// What stage ppo made of a completion, for the file: numbers of its states, before each token and after the last; of
// the longest completion of a sampling not after the last. Advantages are of tokens.
struct TokenTargets {
  std::vector<float> rewards = {}, values = {}, returns = {}, advantages = {};
};

struct Rollout {
  int64_t step = 0;  // the first optimizer step that trains on it
  // Optimizer steps that the weights it was sampled with had behind them; -1: unknown, another sampler's.
  int64_t weights_step = -1;
  int64_t group = 0;  // the prompt's number within its sampling: completions of one prompt have the same
  std::string prompt = {}, completion = {};  // as text, where there is a tokenizer
  std::vector<int64_t> prompt_ids = {};
  std::shared_ptr<const std::vector<RowImage>> images = {};  // that placeholders of the prompt stand for; null: none
  std::vector<int64_t> completion_ids = {};                  // with the end token
  // Of each token of the completion, whether the model wrote it; empty: all of them. The others are an environment's.
  std::vector<bool> written = {};
  std::vector<float> log_probs = {};           // of the completion by its sampler; NaN: unknown; empty: all are
  std::map<std::string, double> rewards = {};  // by name; NaN: none was given
  bool truncated = false;                      // it ended at the limit, not by an end token
  std::optional<double> advantage = {};        // given instead of rewards
  TokenTargets tokens = {};                    // empty in other stages
};

// Tokens of the completion that the model wrote.
inline int64_t WrittenTokens(const Rollout& rollout) {
  if (rollout.written.empty()) return std::ssize(rollout.completion_ids);
  return std::count(rollout.written.begin(), rollout.written.end(), true);
}

// Whether two have the same prompt in the same sampling.
inline bool IsSameGroup(const Rollout& a, const Rollout& b) { return a.step == b.step && a.group == b.group; }

}  // namespace trireme
