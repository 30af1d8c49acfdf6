#include "core/base/process.h"

#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>
#include <system_error>

namespace trireme {

int64_t PeakResidentBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  constexpr int64_t kKibibyte = 1024;  // Linux counts in these
  return usage.ru_maxrss * kKibibyte;
}

void ResetPeakResident() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  std::ofstream("/proc/self/clear_refs") << "5";  // of proc(5): resets the peak resident set
}

void KeepFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

void FailWritesBeyondFileLimit() { signal(SIGXFSZ, SIG_IGN); }

std::string ProgramPath() {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "trireme";
  const std::string near = whole.lexically_relative(std::filesystem::current_path(error)).string();
  return error || near.empty() || near.starts_with("..") ? whole.string() : near;
}

std::string ShellWord(const std::string& text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string word = "'";
  for (const char letter : text) word += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return word + "'";
}

}  // namespace trireme
