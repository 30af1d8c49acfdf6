// From a command's arguments to the configuration it asks for: RUN.yaml and --set. Shared by the commands
// that take one.
#pragma once

#include "core/cli/arguments.h"
#include "core/config.pb.h"

namespace trireme {

// The name under which a command takes the file.
inline constexpr const char* kRunFile = "RUN.yaml";

// The file where one is given, all defaults where none is; then --set.
Config ConfigOf(const Arguments& arguments);

}  // namespace trireme
