#include "launch/thread_waits.h"

#include <alloca.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cstring>

namespace trireme {
namespace {

// Some 100 µs: longer than the gaps between the operators of a layer, so that a quiet host loses less than 2 %, and far
// shorter than a time slice, which others would wait for on a busy one.
char spins[] = "GOMP_SPINCOUNT=3000";

bool StartsWith(const char* text, const char* start) { return std::strncmp(text, start, std::strlen(start)) == 0; }

bool IsSettled(const char* variable) {
  return StartsWith(variable, "GOMP_SPINCOUNT=") || StartsWith(variable, "OMP_WAIT_POLICY=") ||
         std::strcmp(variable, "OMP_NUM_THREADS=1") == 0;
}

}  // namespace

// Runs before the libraries' own initialisation: the stack and system calls alone.
__attribute__((no_sanitize("address", "thread", "undefined"))) void UseShortSpins(int, char** argv,
                                                                                  char** environment) {
  size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (IsSettled(environment[count])) return;
  }
  if (getauxval(AT_SECURE) != 0) return;
  char** longer = static_cast<char**>(alloca((count + 2) * sizeof(char*)));
  std::memcpy(longer, environment, count * sizeof(char*));
  longer[count] = spins;
  longer[count + 1] = nullptr;
  char program[4096];
  const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0) return;
  program[length] = '\0';
  execve(program, argv, longer);  // returns only where it cannot: then with libgomp's default
}

}  // namespace trireme
