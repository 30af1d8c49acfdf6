#include "train/report/run_report.h"

#include <iostream>

namespace trireme {

RunReport::RunReport(const ReportOptions& options)
    : log_(options.output, options.go_on), screen_(std::cout, options.screen) {}

void RunReport::Step(const LoggedStep& step, bool logged) {
  logged = logged || step.evaluation.has_value();
  if (logged) log_.Write(step);
  screen_.Show(step, logged);
}

void RunReport::Finish() { screen_.Finish(); }

}  // namespace trireme
