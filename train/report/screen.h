// Screen: what people see of a run while it goes on. On a terminal one line that is drawn anew, everywhere
// else a plain line a logged step.
#pragma once

#include <chrono>
#include <ostream>
#include <string>

#include "train/report/logged_step.h"

namespace trireme {

struct ScreenOptions {
  bool bar = false;  // a line that is drawn anew; otherwise plain lines
  int columns = 80;  // of the terminal
};

// What fits this process's stdout. Under mpirun every rank's stdout looks like a terminal, so that only who
// started mpirun knows: TRIREME_TERMINAL=1 says it is one, COLUMNS how wide.
ScreenOptions ScreenOf(bool under_mpi);

class Screen {
 public:
  // `out` outlives it.
  Screen(std::ostream& out, const ScreenOptions& options) : out_(out), options_(options) {}

  // Every step; `logged`: it is one of those that stand in the log.
  void Show(const LoggedStep& step, bool logged);
  // A line of its own, which stays.
  void Say(const std::string& text);
  // What is drawn stays as it is; the next text begins a line.
  void Finish();

 private:
  using Clock = std::chrono::steady_clock;
  void Draw(const std::string& text);

  std::ostream& out_;
  const ScreenOptions options_;
  bool drawn_ = false;  // the cursor stands behind the bar
  Clock::time_point drawn_at_ = {};
};

// "1:02:03", "2:03", "0:03".
std::string ClockText(double seconds);

}  // namespace trireme
