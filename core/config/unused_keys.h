// Refuses keys that were set where they have no part in the run (scope.h): a value that nobody reads would mislead.
// What depends on more than the configuration, such as the model or the world, is checked where it is known.
#pragma once

#include <string>

#include "core/base/problems.h"
#include "core/config.pb.h"

namespace trireme {

// One problem for each such key whose name starts with `prefix`: the key, its value, why, and what to do. A key at its
// default counts as not set.
void RefuseUnusedKeys(const Config& config, Problems& problems, const std::string& prefix = "");
// The same, thrown.
void RefuseUnusedKeys(const Config& config, const std::string& prefix = "");

}  // namespace trireme
