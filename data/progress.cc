#include "data/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/error.h"

namespace trireme {
namespace {

constexpr int kBarWidth = 30;

std::chrono::milliseconds FirstPause(bool terminal) { return std::chrono::milliseconds(terminal ? 200 : 2'000); }

std::chrono::milliseconds Pause(bool terminal) { return std::chrono::milliseconds(terminal ? 200 : 10'000); }

// Under mpirun a rank's stderr is never a terminal; the launch scripts set what it ends on.
bool EndsOnTerminal() {
  const char* told = std::getenv("TRIREME_STDERR_TERMINAL");
  return isatty(STDERR_FILENO) == 1 || (told != nullptr && std::string_view(told) == "1");
}

}  // namespace

Progress::Progress(std::string what, int64_t total)
    : what_(std::move(what)),
      total_(std::max<int64_t>(total, 1)),
      terminal_(EndsOnTerminal()),
      start_(Clock::now()),
      next_(start_ + FirstPause(terminal_)) {}

Progress::~Progress() {
  if (shown_ && terminal_) std::fputs("\n", stderr);
}

void Progress::Advance(int64_t done) {
  done_ += done;
  const auto now = Clock::now();
  if (now < next_ && !(shown_ && terminal_ && done_ >= total_)) return;
  next_ = now + Pause(terminal_);
  Show();
}

void Progress::Show() {
  shown_ = true;
  const double share = static_cast<double>(done_) / static_cast<double>(total_);
  const double seconds = SecondsSince(start_);
  const auto left = static_cast<int64_t>(seconds / share * (1 - share) + 0.5);
  std::string bar(kBarWidth, ' ');
  std::fill_n(bar.begin(), static_cast<int>(share * kBarWidth), '=');
  const std::string line = Concat(terminal_ ? "\r" : "", what_, " [", bar, "] ", static_cast<int>(100 * share), " %, ",
                                  left, " s left", terminal_ ? "  " : "\n");
  std::fputs(line.c_str(), stderr);
}

}  // namespace trireme
