// A small table of commands for the tests of parsing and help: one of each kind of argument.
#pragma once

#include <vector>

#include "core/cli/command.h"

namespace trireme {

inline std::vector<Command> ExampleCommands() {
  return {
      {.name = "check", .summary = "Looks at the machine. More about it."},
      {.name = "train",
       .summary = "Trains.",
       .options = {{.name = "dry-run", .help = "stop before the first step"},
                   {.name = "world", .value_name = "N", .help = "for N ranks"}},
       .positionals = {{.name = "RUN.yaml", .help = "the run's configuration"}},
       .takes_config = true},
      {.name = "merge",
       .summary = "Merges.",
       .options = {{.name = "model", .value_name = "DIR", .help = "the model", .required = true}},
       .positionals = {{.name = "FROM", .help = "first"}, {.name = "TO", .help = "second", .required = false}}},
      {.name = "bench comm", .summary = "Measures collectives."},
      {.name = "bench step", .summary = "Measures a step."},
  };
}

}  // namespace trireme
