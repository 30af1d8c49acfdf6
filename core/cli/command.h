// A command of the program as data: its name, what it takes, what runs it. From this one description come
// parsing (parse.h) and help (help.h); a new command is one such value and one line in launch/commands.cc.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/cli/arguments.h"

namespace trireme {

class Job;  // core/comm/job.h; the table only hands it on

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
};

struct Command {
  std::string name{};     // one word, or two: "bench comm"
  std::string summary{};  // its first sentence stands in the list of commands
  std::vector<Option> options{};
  std::vector<Positional> positionals{};
  bool takes_config = false;  // adds the repeatable --set, and the keys of RUN.yaml to the help
  std::function<void(const Arguments&, Job&)> run{};  // a failure is an Error, never a status
};

}  // namespace trireme
