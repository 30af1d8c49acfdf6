// Completions as rows to train on: each with its prompt, or as many of a group as fit into a row with the prompt once.
// Answers' values are the completions' numbers among those given; their advantages are put in their place later.
#pragma once

#include <span>
#include <vector>

#include "data/row_views.h"
#include "train/rollouts/rollout.h"

namespace trireme {

struct RolloutRowOptions {
  int64_t longest = 0;          // tokens of a row
  bool share_prompt = true;     // otherwise each completion is a row
  bool mask_truncated = false;  // nothing of truncated ones is trained
  bool pack = false;            // several rows in one, up to `longest`
};

// Refuses a completion that does not fit into a row with its prompt.
Rows RowsOf(std::span<const Rollout> rollouts, const RolloutRowOptions& options);

}  // namespace trireme
