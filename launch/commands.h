// The program's commands. Each is described in its own file, named after it.
#pragma once

#include <vector>

#include "core/cli/command.h"

namespace trireme {

// In the order of --help.
const std::vector<Command>& Commands();

}  // namespace trireme
