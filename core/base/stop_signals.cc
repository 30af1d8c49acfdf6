#include "core/base/stop_signals.h"

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string_view>

namespace trireme {
namespace {

// A launcher and a terminal may both deliver the same request: another signal within a second does not count
// as a second one.
constexpr int64_t kSameRequestNanoseconds = 1'000'000'000;
constexpr std::string_view kAnswer =
    "\nstopping after this step and saving a checkpoint; send the signal again to end the run at once\n";

// Lock-free, hence safe in a handler.
std::atomic<int64_t> requested_at = 0;  // on the monotonic clock; 0: not requested
std::atomic<bool> speaks_here = false;

int64_t Now() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

void Note(int signal_number) {
  int64_t first = 0;
  if (requested_at.compare_exchange_strong(first, Now())) {
    if (speaks_here) (void)!write(STDERR_FILENO, kAnswer.data(), kAnswer.size());
  } else if (Now() - first > kSameRequestNanoseconds) {
    signal(signal_number, SIG_DFL);
    raise(signal_number);
  }
}

}  // namespace

StopSignals::StopSignals(bool speaks) {
  requested_at = 0;
  speaks_here = speaks;
  struct sigaction action = {};
  action.sa_handler = Note;
  action.sa_flags = SA_RESTART;  // no library call is interrupted
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
}

bool StopRequested() { return requested_at != 0; }

}  // namespace trireme
