// Keys that name files, as marked in config.proto (schema.path).
#pragma once

#include "core/config.pb.h"

namespace trireme {

// Expands a leading "~" of every path to the home directory.
void ExpandPaths(Config& config);

}  // namespace trireme
