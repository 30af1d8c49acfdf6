// Refuses keys that were set where they have no part in the run (scope.h): a value that nobody reads would mislead.
// What depends on more than the configuration, such as the model or the world, is checked where it is known.
#pragma once

#include <string>
#include <vector>

#include "core/base/problems.h"
#include "core/config.pb.h"

namespace trireme {

struct UnusedKey {
  std::string key, value;
  std::string why;  // what follows "key = value": " is for stage ppo, not sft"
};

// Those whose name starts with `prefix`. A key at its default counts as not set.
std::vector<UnusedKey> UnusedKeys(const Config& config, const std::string& prefix = "");

// One problem for each: the key, its value, why, and what to do.
void RefuseUnusedKeys(const Config& config, Problems& problems, const std::string& prefix = "");
// The same, thrown.
void RefuseUnusedKeys(const Config& config, const std::string& prefix = "");

}  // namespace trireme
