#include "core/base/home_path.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace trireme {
namespace {

// Empty if there is none.
std::string HomeOf(const std::string& user) {
  if (user.empty()) {
    if (const char* home = std::getenv("HOME"); home != nullptr && *home != 0) return home;
  }
  const passwd* entry = user.empty() ? getpwuid(getuid()) : getpwnam(user.c_str());
  return entry == nullptr ? "" : entry->pw_dir;
}

}  // namespace

std::string ExpandHome(const std::string& path) {
  if (!path.starts_with('~')) return path;
  const size_t slash = path.find('/');
  const std::string home = HomeOf(path.substr(1, slash == std::string::npos ? slash : slash - 1));
  if (home.empty()) return path;
  return slash == std::string::npos ? home : home + path.substr(slash);
}

}  // namespace trireme
