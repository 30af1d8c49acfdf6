// From a command's arguments to the configuration it asks for: RUN.yaml and --set. Shared by the commands
// that take one.
#pragma once

#include <string>

#include "core/cli/arguments.h"
#include "core/config.pb.h"

namespace trireme {

// The name under which a command takes the file.
inline constexpr const char* kRunFile = "RUN.yaml";

// The file where one is given, all defaults where none is; then --set.
Config ConfigOf(const Arguments& arguments);

// The same for commands that take --model, which is model.path, and perhaps an adapter, which is tuning.adapters. Without
// a run's file all parameters are trained and nothing is dropped, unless --set says otherwise.
Config ModelConfigOf(const Arguments& arguments, const std::string& adapters = "");

// Of an option that names a file to write: asked before the work, so that nothing is lost to a name that is taken.
void RefuseToOverwrite(const std::string& option, const std::string& path);

}  // namespace trireme
