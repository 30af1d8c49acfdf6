// From a command's arguments to the layout it asks for: RUN.yaml and --set, then grids and groups. Shared by
// the commands that take a run's configuration; refuses, before any device is touched, what does not fit the
// world.
#pragma once

#include "core/cli/arguments.h"
#include "core/comm/communicator_set.h"
#include "core/config.pb.h"
#include "core/plan/grids.h"
#include "core/plan/groups.h"

namespace trireme {

// The name under which a command takes the file.
inline constexpr const char* kRunFile = "RUN.yaml";

// The file where one is given, all defaults where none is; then --set.
Config ConfigOf(const Arguments& arguments);

ParallelSizes SizesOf(const ParallelConfig& parallel);

// No model is read here: expert groups are there where the layout names experts.
GroupPlan GroupsOf(const Config& config, const Grids& grids);

CommOptions CommOptionsOf(const Config& config);

}  // namespace trireme
