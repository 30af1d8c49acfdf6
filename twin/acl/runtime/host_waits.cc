#include "twin/acl/runtime/host_waits.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "twin/acl/runtime/error.h"

namespace twin {
namespace {

class HostWaits {
 public:
  explicit HostWaits(const char* path) : path_(path) {}

  void Count(const std::string& what) {
    std::lock_guard lock(mutex_);
    ++calls_[what];
  }

  // One write: the lines of several processes do not mix.
  void Append() {
    std::lock_guard lock(mutex_);
    std::string line = Text("{\"pid\": ", getpid());
    for (const auto& [what, count] : calls_) line += Text(", \"", what, "\": ", count);
    line += "}\n";
    const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0 || write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      std::fprintf(stderr, "TWIN_HOST_WAITS: cannot append to '%s'; wanted a file that can be written\n",
                   path_.c_str());
    }
    if (file >= 0) close(file);
  }

 private:
  const std::string path_;
  std::mutex mutex_;
  std::map<std::string, uint64_t> calls_;
};

// Null without the variable. Never destroyed: other threads may still call ACL while the process ends.
HostWaits* host_waits() {
  static HostWaits* const waits = [] {
    const char* path = std::getenv("TWIN_HOST_WAITS");
    auto* made = path == nullptr || *path == '\0' ? nullptr : new HostWaits(path);
    if (made != nullptr) std::atexit([] { host_waits()->Append(); });
    return made;
  }();
  return waits;
}

}  // namespace

void CountHostWait(const char* function) {
  if (HostWaits* waits = host_waits()) waits->Count(function);
}

void CountHostCopy(const char* function, bool to_host) {
  if (HostWaits* waits = host_waits()) waits->Count(Text(function, to_host ? " to host" : " from host"));
}

}  // namespace twin
