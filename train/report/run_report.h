// RunReport: all that a run says of its steps, in one place: log.jsonl and the screen. On rank 0 only.
#pragma once

#include <filesystem>

#include "train/report/log_file.h"
#include "train/report/logged_step.h"
#include "train/report/screen.h"

namespace trireme {

struct ReportOptions {
  std::filesystem::path output;  // of the run
  bool go_on = false;            // with the log that is there
  ScreenOptions screen = {};
};

class RunReport {
 public:
  explicit RunReport(const ReportOptions& options);

  // Every step; `logged`: it is due in the log. A step that was evaluated always is.
  void Step(const LoggedStep& step, bool logged);
  // A line for people.
  void Say(const std::string& text) { screen_.Say(text); }
  // Behind the last step.
  void Finish();

 private:
  LogFile log_;
  Screen screen_;
};

}  // namespace trireme
