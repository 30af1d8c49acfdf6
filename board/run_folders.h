// RunFolders: which runs there are: each given directory that is a run's output, and the runs directly inside each
// other one, which come and go. A run is addressed by an id made here, never by a path of the client's.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "board/run_files.h"
#include "board/run_log.h"

namespace trireme {

struct BoardRun {
  std::string id;                   // in paths: letters, digits, ".", "_" and "-"
  std::filesystem::path directory;  // as given on the command line, or below that
  RunLog log;
  RunState state = RunState::kStopped;
};

class RunFolders {
 public:
  // An input error if one is not a directory.
  explicit RunFolders(const std::vector<std::string>& outputs);

  // Looks for new runs, and for those that are gone; returns whether there were any.
  bool Scan();
  // By id, in the order of their directories.
  const std::vector<std::shared_ptr<BoardRun>>& runs() const { return runs_; }
  std::shared_ptr<BoardRun> Find(const std::string& id) const;  // nullptr: there is none
  // Those given that are not runs themselves: new runs may be started in them.
  const std::vector<std::filesystem::path>& parents() const { return parents_; }

 private:
  std::vector<std::filesystem::path> Found() const;
  std::string NewId(const std::filesystem::path& directory) const;

  std::vector<std::filesystem::path> given_;    // runs
  std::vector<std::filesystem::path> parents_;  // of runs
  std::vector<std::shared_ptr<BoardRun>> runs_;
};

}  // namespace trireme
