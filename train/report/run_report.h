// RunReport: all that a run says of its steps, in one place: log.jsonl, events/ for TensorBoard, the
// screen, loss.svg and the words at the end. On rank 0 only.
#pragma once

#include <filesystem>

#include "core/config.pb.h"
#include "train/report/event_file.h"
#include "train/report/log_file.h"
#include "train/report/logged_step.h"
#include "train/report/mean_loss.h"
#include "train/report/screen.h"
#include "train/report/summary.h"

namespace trireme {

struct ReportOptions {
  std::filesystem::path output;  // of the run
  bool go_on = false;            // with the log that is there
  int64_t first_step = 1;        // of this start
  ScreenOptions screen = {};
};

class RunReport {
 public:
  explicit RunReport(const ReportOptions& options);

  // Every step; `logged`: it is due in the log. A step that was evaluated always is.
  void Step(const LoggedStep& step, bool logged);
  // When everything is written.
  void Finish(const Config& config, const RunEnd& end);

 private:
  const std::filesystem::path output_;
  LogFile log_;
  EventFile events_;
  Screen screen_;
  MeanLoss mean_;  // since the last line
};

}  // namespace trireme
