// OutputLock: one run at a time in an output directory. Held from before the directory is examined until the
// process ends, however it ends: the kernel releases it, so a killed run blocks no one. Knows
// nothing about the directory's contents. No torch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/comm/job.h"

namespace trireme {

class OutputLock {
 public:
  // Collective. Creates the directory if it is missing. An input error, with the directory untouched, if
  // another run uses it. Warns about a file system without locks, or with locks local to one host.
  OutputLock(const std::filesystem::path& output, Job& job);
  // Removes its file, and directories that it created and no one used, but not while a run that has begun
  // fails: other ranks may still be using them.
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

  // On rank 0: no other run can use the directory, on any host. False on other ranks, and if the file system
  // has no such locks.
  bool excludes_all() const { return excludes_all_; }

  // From now on the directory contains files of this run.
  void RunBegins() { begun_ = true; }

 private:
  void TakeForRun();
  void TakeForRank(const Job& job);

  const std::filesystem::path output_, file_;
  std::vector<std::filesystem::path> made_;  // directories, outermost first
  int fd_ = -1;
  bool holds_run_ = false;
  bool excludes_all_ = false;
  bool begun_ = false;
};

// Whether, according to /proc/self/mountinfo, locks on the file system with this "major:minor" are visible to
// this host only (NFS with nolock or local_lock=posix, Lustre with localflock).
bool LocksAreLocal(const std::string& mountinfo, const std::string& device);

}  // namespace trireme
