#include "train/report/run_report.h"

#include <iostream>

#include "checkpoint/whole_file.h"
#include "core/base/process.h"
#include "train/report/loss_chart.h"

namespace trireme {

RunReport::RunReport(const ReportOptions& options)
    : output_(options.output),
      log_(options.output, options.go_on),
      events_(options.output / "events", options.first_step),
      screen_(std::cout, options.screen) {}

void RunReport::Step(const LoggedStep& step, bool logged) {
  logged = logged || step.evaluation.has_value();
  mean_.Add(step);
  if (!logged) return screen_.Show(step, logged);
  LoggedStep line = step;
  mean_.Take(line);
  log_.Write(line);
  events_.Write(line);
  screen_.Show(line, logged);
}

void RunReport::Finish(const Config& config, const RunEnd& end) {
  log_.CheckIsThere();  // before anything says that the run is done
  const LogCurves curves = ReadCurves(output_ / "log.jsonl");
  WriteWholeFile(output_ / "loss.svg", DrawLossChart(curves));
  screen_.Finish();
  std::cout << EndSummary(config, end, curves, ShellWord(ProgramPath())) << std::flush;
}

}  // namespace trireme
