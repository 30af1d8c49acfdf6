// RunStarter: starts runs that a form describes, and stops those. Everything it writes is new (NAME.yaml and NAME.txt
// beside the run's directory NAME, all of which must not exist), below the directories that the board was given. A run
// is a process of its own, and goes on when the board ends.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace trireme {

class RunStarter {
 public:
  explicit RunStarter(std::vector<std::filesystem::path> folders) : folders_(std::move(folders)) {}

  // For {"folder", "name", "ranks", "set": {KEY: TEXT}}: {"yaml", "command", "problems", "folders"}. Writes nothing.
  Json Preview(const Json& form) const;
  // Starts it and returns what Started() says of it; throws an ApiError with the problems if there are any.
  Json Start(const Json& form);
  // For {"directory"} of one that was started here: asks it to save and stop, as docs/runs.md describes; asked again,
  // it ends at once.
  Json Stop(const Json& form);
  // {"runs": [{"name", "directory", "command", "state", "status", "text"}], "folders"}, newest first.
  Json Started();

 private:
  struct Plan {
    std::filesystem::path output, yaml_file, text_file;
    std::string yaml, command;
    std::vector<std::string> words;
    std::vector<std::string> problems;
  };
  struct Process {
    Plan plan;
    pid_t id = 0;
    bool ended = false, stopping = false;
    int status = 0;
  };
  Plan PlanOf(const Json& form) const;
  void PlanFiles(const Json& form, Plan& plan) const;
  void PlanYaml(const Json& form, Plan& plan) const;
  Json FolderNames() const;
  Json Describe(const Process& process) const;
  static const char* StateName(const Process& process);
  static void Look(Process& process);  // whether it has ended

  const std::vector<std::filesystem::path> folders_;
  std::vector<Process> processes_;
};

}  // namespace trireme
