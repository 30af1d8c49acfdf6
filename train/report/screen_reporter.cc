// The screen as a reporter, on this process's stdout: for people, or JSON lines for programs.
#include <iostream>

#include "core/base/json.h"
#include "train/report/log_line.h"
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

class JsonScreen : public Reporter {
 public:
  void Write(const LoggedStep& step) override { std::cout << JsonLine(LogLineOf(step)) << std::endl; }
};

}  // namespace

std::unique_ptr<Reporter> OpenScreen(const ReportOptions& options) {
  if (options.screen.json) return std::make_unique<JsonScreen>();
  return std::make_unique<ScreenReporter>(options.screen);
}

}  // namespace trireme
