#include "launch/thread_waits.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace trireme {
namespace {

// Some 10 to 50 µs: longer than most gaps between the operators of a layer, and far shorter than a time slice.
constexpr const char* kSpins = "1000";

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
