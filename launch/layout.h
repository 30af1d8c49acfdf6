// From a command's arguments to its configuration: RUN.yaml and --set. Shared by the commands
// that take one.
#pragma once

#include <string>

#include "core/cli/arguments.h"
#include "core/config.pb.h"

namespace trireme {

// The name of a command's configuration argument.
inline constexpr const char* kRunFile = "RUN.yaml";

// Names of models on hubs become directories; a vocabulary that is to grow has one of its own.
Config WithModelDirectories(Config config);

// The file if one is given, otherwise all defaults; then --set. Models are directories in it, whatever they were named by.
Config ConfigOf(const Arguments& arguments);

// The same for commands that take --model, which sets model.path, and perhaps an adapter, which sets
// tuning.adapters. Without a run's file all parameters are trained without dropout, unless --set overrides
// it.
Config ModelConfigOf(const Arguments& arguments, const std::string& adapters = "");

// --model: a directory, or the name of a model on a hub that is in a local cache.
std::string ModelArgument(const Arguments& arguments);

// For an option that names a file to write: checked before the work, so that no result is lost because the
// name is taken.
void RefuseToOverwrite(const std::string& option, const std::string& path);

}  // namespace trireme
