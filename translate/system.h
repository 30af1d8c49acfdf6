// Another system as data: how its inputs are recognised, its rules, and what it takes where the user says nothing. One
// file a system, and one line in systems.cc.
#pragma once

#include <string>
#include <vector>

#include "translate/given.h"
#include "translate/rules.h"
#include "translate/translation.h"

namespace trireme {

// What the run is started with besides the settings.
struct Surroundings {
  int world = 0;          // ranks; 0: as the input says
  std::string directory;  // of the input, for the files that it names
  std::string model;      // where a config.json made from flags is to lie; empty: nowhere
};

struct System {
  std::string name;   // of --from
  std::string title;  // of comments
  std::string (*stage)(const Given&);
  std::vector<RuleRow> (*rules)();
  // What depends on several settings, and defaults.
  void (*finish)(const Given&, const Surroundings&, const std::string& stage, Translation&);
};

const std::vector<const System*>& Systems();

const System& SwiftSystem();
const System& MegatronSwiftSystem();
const System& LlamaFactorySystem();
const System& MegatronSystem();
const System& TrlSystem();
const System& VerlSystem();
const System& VerlSftSystem();

}  // namespace trireme
