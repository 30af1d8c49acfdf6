// The screen as a reporter, on this process's stdout.
#include <iostream>

#include "train/report/reporter.h"

namespace trireme {
namespace {

class ScreenReporter : public Reporter {
 public:
  explicit ScreenReporter(const ScreenOptions& options) : screen_(std::cout, options) {}
  void Write(const LoggedStep& step) override { screen_.Show(step, /*logged=*/true); }
  void Pass(const LoggedStep& step) override { screen_.Show(step, /*logged=*/false); }
  void Finish() override { screen_.Finish(); }

 private:
  Screen screen_;
};

}  // namespace

std::unique_ptr<Reporter> OpenScreen(const ReportOptions& options) {
  return std::make_unique<ScreenReporter>(options.screen);
}

}  // namespace trireme
