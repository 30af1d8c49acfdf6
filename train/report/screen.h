// Screen: what people see of a running run. On a terminal one line that is redrawn, everywhere
// else a plain line per logged step.
#pragma once

#include <chrono>
#include <ostream>
#include <string>

#include "train/report/logged_step.h"

namespace trireme {

// What --report asks for on stdout.
enum class ReportForm {
  kRich,   // one line that is redrawn; plain where stdout is no terminal
  kPlain,  // a line per logged step
  kJson,   // the same lines as in log.jsonl, and nothing else
  kEvents  // the same, and a line for each checkpoint once it is complete
};
// An input error if it is no form's name.
ReportForm ParseReportForm(const std::string& name);

struct ScreenOptions {
  bool bar = false;    // a line that is redrawn; otherwise plain lines
  int columns = 80;    // of the terminal
  bool json = false;   // JSON lines alone: notices go to stderr
  bool saves = false;  // of checkpoints, too
};

// Options for this process's stdout. Under mpirun every rank's stdout looks like a terminal, so that only
// whoever started mpirun knows: TRIREME_TERMINAL=1 means it is one, COLUMNS is its width.
ScreenOptions ScreenOf(bool under_mpi, ReportForm form);

class Screen {
 public:
  // `out` outlives it.
  Screen(std::ostream& out, const ScreenOptions& options) : out_(out), options_(options) {}

  // Called for every step; `logged`: it is written to the log.
  void Show(const LoggedStep& step, bool logged);
  // Prints a permanent line.
  void Say(const std::string& text);
  // Keeps what is drawn; the next text starts a new line.
  void Finish();

 private:
  using Clock = std::chrono::steady_clock;
  void Draw(const std::string& text);

  std::ostream& out_;
  const ScreenOptions options_;
  bool drawn_ = false;  // the cursor is after the bar
  Clock::time_point drawn_at_ = {};
};

// "1:02:03", "2:03", "0:03".
std::string ClockText(double seconds);

}  // namespace trireme
