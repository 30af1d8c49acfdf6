// From the words of a command line to a command and its arguments, or to the text for --help or --version.
// Prints nothing and runs nothing; user mistakes are input errors.
#pragma once

#include <string>
#include <vector>

#include "core/cli/command.h"

namespace trireme {

struct Invocation {
  const Command* command = nullptr;  // nullptr: nothing to run, `text` is the answer
  Arguments arguments{};
  std::string text{};
};

// `words` is the command line without the program's name. Options for the whole process (process_options.h)
// are allowed anywhere and take effect at once.
Invocation ParseCommandLine(const std::vector<Command>& commands, const std::vector<std::string>& words,
                            const std::string& version);

}  // namespace trireme
