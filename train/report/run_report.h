// RunReport: all that a run tells of its steps, in one place: every reporter of the list, loss.svg and the summary at
// the end. On rank 0 only.
#pragma once

#include <filesystem>

#include "core/config.pb.h"
#include "train/report/logged_step.h"
#include "train/report/mean_loss.h"
#include "train/report/reporter.h"
#include "train/report/summary.h"

namespace trireme {

class RunReport {
 public:
  explicit RunReport(const ReportOptions& options);

  // Called for every step; `logged`: it is due in the log. An evaluated step always is.
  void Step(const LoggedStep& step, bool logged);
  // Called when everything is written.
  void Finish(const Config& config, const RunEnd& end);

 private:
  const std::filesystem::path output_;
  std::vector<std::unique_ptr<Reporter>> reporters_;
  MeanLoss mean_;  // since the last line
};

}  // namespace trireme
