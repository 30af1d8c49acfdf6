// RunReport: all that a run tells of its steps, in one place: every reporter of the list, loss.svg and the summary at
// the end. On rank 0 only.
#pragma once

#include <filesystem>
#include <ostream>

#include "core/config.pb.h"
#include "train/report/logged_step.h"
#include "train/report/mean_loss.h"
#include "train/report/reporter.h"
#include "train/report/summary.h"

namespace trireme {

// Of a run: its services, under what name, and the settings that differ from the defaults.
ReportOptions ReportOptionsOf(const Config& config, const ScreenOptions& screen);

// Where what is said once goes: stdout, or stderr where stdout has JSON lines alone.
std::ostream& NoticesOf(const ScreenOptions& screen);

class RunReport {
 public:
  explicit RunReport(const ReportOptions& options);

  // Called for every step; `logged`: it is due in the log. An evaluated step always is.
  void Step(const LoggedStep& step, bool logged);
  // Called when everything is written.
  void Finish(const Config& config, const RunEnd& end);

 private:
  const std::filesystem::path output_;
  std::ostream& notices_;
  std::vector<std::unique_ptr<Reporter>> reporters_;
  MeanLoss mean_;  // since the last line
};

}  // namespace trireme
