// Keys that name files, by config.proto's own word (schema.path).
#pragma once

#include "core/config.pb.h"

namespace trireme {

// "~" at the beginning of every path becomes the home directory.
void ExpandPaths(Config& config);

}  // namespace trireme
