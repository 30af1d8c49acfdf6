// From a command's arguments to its configuration: RUN.yaml and --set. Shared by the commands
// that take one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/cli/arguments.h"
#include "core/comm/job.h"
#include "core/config.pb.h"
#include "web/hub/hub_download.h"

namespace trireme {

// The name of a command's configuration argument.
inline constexpr const char* kRunFile = "RUN.yaml";

// The directory of a model by its path or its name on a hub; the key is for errors.
using ModelFinder = std::function<std::string(const std::string& path, const std::string& key)>;

// Names of models on hubs become directories; a vocabulary that is to grow has one of its own.
Config WithModelDirectories(Config config, const ModelFinder& find);

// The file if one is given, otherwise all defaults; then --set. Models are directories in it, whatever they were named
// by: those of a hub are downloaded if need be. Collective.
Config ConfigOf(const Arguments& arguments, Job& job, HubParts parts = HubParts::kAll);

// Without a file: all defaults, then these settings, then --set. Collective.
Config DefaultConfigOf(const Arguments& arguments, std::vector<std::string> settings, Job& job);

// The same for commands that take --model, which sets model.path, and perhaps an adapter, which sets
// tuning.adapters. Without a run's file all parameters are trained without dropout, unless --set overrides
// it.
Config ModelConfigOf(const Arguments& arguments, Job& job, const std::string& adapters = "");

// --model: a directory, or the name of a model on a hub. Collective.
std::string ModelArgument(const Arguments& arguments, Job& job);

// For an option that names a file to write: checked before the work, so that no result is lost because the
// name is taken.
void RefuseToOverwrite(const std::string& option, const std::string& path);

}  // namespace trireme
