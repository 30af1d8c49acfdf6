// The texts of `trireme --help` and `trireme COMMAND --help`, generated from the command table.
#pragma once

#include <string>
#include <vector>

#include "core/cli/command.h"

namespace trireme {

// All commands, or, given a first word such as "bench", those that begin with it.
std::string ProgramHelp(const std::vector<Command>& commands, const std::string& first_word = "");

std::string CommandHelp(const Command& command);

// All options of a command, including --set but not the process-wide ones.
std::vector<Option> CommandOptions(const Command& command);

}  // namespace trireme
