// Finds a run of another system in what the user has: a script, a command line, a YAML file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "translate/given.h"
#include "translate/system.h"

namespace trireme {

struct FoundRun {
  const System* system = nullptr;
  Given given;
  std::string what;  // "swift sft in lora.sh:3"
};

struct InputOptions {
  std::string from;                            // a system's name; empty: the input tells
  std::map<std::string, std::string> defined;  // variables of scripts
};

// One word that names a file, or the words of a command. An input error if no run is found, or more than one.
FoundRun FindRun(const std::vector<std::string>& words, const InputOptions& options);

}  // namespace trireme
