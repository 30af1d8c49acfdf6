// The program's commands. Each is described in a file of its own, named after it.
#pragma once

#include <vector>

#include "core/cli/command.h"

namespace trireme {

// In the order that --help shows.
const std::vector<Command>& Commands();

}  // namespace trireme
