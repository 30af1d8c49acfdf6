// OutputLock: one run at a time in an output directory. Held from before the directory is looked at until the
// process ends, however it ends: the kernel frees it, so what a killed run leaves behind blocks nobody. Knows
// nothing of what lies in the directory. No torch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/comm/job.h"

namespace trireme {

class OutputLock {
 public:
  // Collective. Makes the directory where it is missing. An input error, with the directory untouched, where
  // another run works there. A file system without locks, or with locks of one host alone, is warned of.
  OutputLock(const std::filesystem::path& output, Job& job);
  // Takes its file away, and directories that it made and nobody used, but not while a run that has begun
  // fails: other ranks may still be at work there.
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

  // On rank 0: no other run can be at work there, on any host. False on other ranks, and where the file system has no
  // such locks.
  bool excludes_all() const { return excludes_all_; }

  // From now on there is something of this run in the directory.
  void RunBegins() { begun_ = true; }

 private:
  void TakeForRun();
  void TakeForRank(const Job& job);

  const std::filesystem::path output_, file_;
  std::vector<std::filesystem::path> made_;  // directories, the outermost first
  int fd_ = -1;
  bool holds_run_ = false;
  bool excludes_all_ = false;
  bool begun_ = false;
};

// What /proc/self/mountinfo says of the file system with this "major:minor": whether its locks are seen by
// this host alone (NFS with nolock or local_lock=posix, Lustre with localflock).
bool LocksAreLocal(const std::string& mountinfo, const std::string& device);

}  // namespace trireme
