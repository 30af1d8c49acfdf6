// Rollouts as JSON lines: what every run that samples writes as rollouts.jsonl, and what `rl.rollouts` reads again.
#pragma once

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/config.pb.h"
#include "data/image_reader.h"
#include "train/rollouts/rollout.h"

namespace trireme {

// {"step":1,"group":0,"prompt":"…","completion":"…","prompt_ids":[…],"completion_ids":[…],"logprobs":[…],
//  "rewards":{"accuracy":1.0},"advantage":0.5,"truncated":false,"weights_step":0}; a reward that was not given is null.
// With images "images" has their sources, in the order of the placeholders in prompt_ids. With an environment
// "env_mask" has 1 for each token of the completion that the model wrote, and 0 for others.
std::string ToJsonLine(const Rollout& rollout);
Json ToJson(const Rollout& rollout);

struct RolloutReading {
  int64_t vocabulary = 0;       // ids are below it
  std::set<int64_t> ends = {};  // tokens that end a completion, for lines that do not say `truncated`
  std::shared_ptr<const ImageReader> images = {};  // of a model that sees; null: lines have no images
  std::filesystem::path folder = {};               // of the file, which reading it sets
};
// As a run reads them.
RolloutReading ReadingFor(const Config& config, int64_t vocabulary);

// All lines. prompt_ids and completion_ids are needed; `logprobs` (or `old_logprobs`) has a number or null for each
// token of the completion; `images` are relative to the file. Without step and group each prompt that differs from the
// one before begins a group. Refuses, with file and line, what is no rollout.
std::vector<Rollout> ReadRollouts(const std::filesystem::path& path, const RolloutReading& reading);
// The same from the text of a file of JSON lines; `path` is its name in errors.
std::vector<Rollout> ParseRollouts(const std::string& text, const std::filesystem::path& path,
                                   const RolloutReading& reading);

}  // namespace trireme
