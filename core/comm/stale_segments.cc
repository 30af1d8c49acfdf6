#include "core/comm/stale_segments.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "net/fd.h"

namespace trireme {
namespace {

// "vader_segment.HOST.USER.JOB.RANK" of Open MPI 4, "sm_segment.…" of 5.
bool IsSegmentName(const std::string& name) {
  return name.starts_with("vader_segment.") || name.starts_with("sm_segment.");
}

// The kernel grants a write lease only on a file that no one else has open or mapped.
bool NobodyHas(int file) {
  fcntl(file, F_SETSIG, SIGURG);  // if someone opens it right now: a harmless signal
  return fcntl(file, F_SETLEASE, F_WRLCK) == 0;
}

bool RemoveIfStale(const std::filesystem::path& path) {
  const net::Fd file(open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (!file.valid() || fstat(file.get(), &status) != 0) return false;
  if (!S_ISREG(status.st_mode) || status.st_uid != geteuid() || !NobodyHas(file.get())) return false;
  return unlink(path.c_str()) == 0;
}

}  // namespace

int RemoveStaleSegments(const std::string& folder) {
  int removed = 0;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable)) {
    if (IsSegmentName(entry.path().filename().string())) removed += RemoveIfStale(entry.path());
  }
  return removed;
}

}  // namespace trireme
