// The body of main, for any table of commands: the program's own, or a test's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/cli/command.h"
#include "core/comm/job.h"

namespace trireme {

// Runs the command given by `words`, the command line without the program's name. Returns the exit
// status if nothing failed or no job was joined; otherwise it ends the job, and this process with it.
int RunProgram(const std::vector<Command>& commands, const std::vector<std::string>& words);

// The same in parts, for a program that runs more than one command: one command in a joined job, and
// the job around any work.
void RunCommand(const std::vector<Command>& commands, const std::vector<std::string>& words, Job& job);
int RunAsProgram(const std::function<void(Job&)>& work);

}  // namespace trireme
