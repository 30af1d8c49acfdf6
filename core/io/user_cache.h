// Where the program keeps what it can make again: a directory per kind in the user's cache, and a lock so that two
// processes do not make the same thing twice.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace trireme {

// trireme/KIND in XDG_CACHE_HOME, or in ~/.cache. An input error where neither is known; `key` names what to set
// instead.
std::filesystem::path UserCache(const std::string& kind, const std::string& key);

// Makes it; an input error if it cannot be written: the user's may be in a read-only home directory, as on many
// clusters.
void MakeUserCache(const std::filesystem::path& cache, const std::string& what, const std::string& key);

// Held while a process works on a file of a cache; released with the process. Where it cannot be made, nothing is
// locked.
class FileLock {
 public:
  // on_wait: called if another process holds it, before waiting.
  explicit FileLock(const std::filesystem::path& path, const std::function<void()>& on_wait = {});
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  const int fd_;
};

}  // namespace trireme
