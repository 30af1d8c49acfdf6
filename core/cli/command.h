// A command of the program as data: its name, its arguments, the function that runs it. Parsing (parse.h) and
// help (help.h) are derived from this description; a new command is one such value and one line in
// launch/commands.cc.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/cli/arguments.h"

namespace trireme {

class Job;  // core/comm/job.h; only passed on here

struct Option {
  std::string name{};        // "world", typed as --world
  std::string value_name{};  // "N"; empty: a switch, which takes no value
  std::string help{};
  bool required = false;
  bool repeatable = false;  // all values are kept, in order
};

struct Positional {
  std::string name{};  // "RUN.yaml"
  std::string help{};
  bool required = true;
  bool repeatable = false;     // the last one only: takes all words that remain
  bool takes_options = false;  // with repeatable: from its first word on, options too: the words of another command
};

struct Command {
  std::string name{};     // one word, or two: "bench comm"
  std::string summary{};  // its first sentence appears in the list of commands
  std::vector<Option> options{};
  std::vector<Positional> positionals{};
  bool takes_config = false;                          // adds the repeatable --set, and the keys of RUN.yaml to the help
  std::function<void(const Arguments&, Job&)> run{};  // failure is thrown as an Error, never returned
};

}  // namespace trireme
