#include "launch/thread_waits.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace trireme {
namespace {

// Some 100 µs: longer than the gaps between the operators of a layer, so that a quiet host loses less than 2 %, and far
// shorter than a time slice, which others would wait for on a busy one.
constexpr const char* kSpins = "3000";

bool IsOneThread() {
  const char* threads = std::getenv("OMP_NUM_THREADS");
  return threads != nullptr && std::string(threads) == "1";
}

}  // namespace

void UseShortSpins(char** argv) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr || IsOneThread()) return;
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error || setenv("GOMP_SPINCOUNT", kSpins, 1) != 0) return;
  execv(program.c_str(), argv);  // returns only where it cannot: then with libgomp's default
}

}  // namespace trireme
