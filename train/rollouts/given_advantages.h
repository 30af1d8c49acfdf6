// Completions with given advantages, as `trireme grads` takes them: {"prompt_ids": […], "completion_ids": […],
// "advantage": 0.5, "old_logprobs": […]} per line, the last of them optional.
#pragma once

#include <string>
#include <vector>

#include "core/config.pb.h"
#include "train/rollouts/rollout.h"

namespace trireme {

// Refuses, with file and line, what is none, and old_logprobs on some lines only.
std::vector<Rollout> ReadGivenAdvantages(const std::string& path, int64_t vocabulary, const Config& config);

}  // namespace trireme
