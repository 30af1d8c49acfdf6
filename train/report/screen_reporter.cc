// The screen as a reporter, on this process's stdout: for people, or JSON lines for programs.
#include <iostream>

#include "checkpoint/run_checkpoints.h"
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

// A checkpoint is written while the next steps run: each step looks which have become complete.
class EventLines : public JsonScreen {
 public:
  explicit EventLines(const ReportOptions& options) : output_(options.output), told_(options.first_step - 1) {}
  void Write(const LoggedStep& step) override {
    TellSaves();
    JsonScreen::Write(step);
  }
  void Pass(const LoggedStep& /*step*/) override { TellSaves(); }
  void Finish() override { TellSaves(); }

 private:
  void TellSaves() {
    for (const RunCheckpoint& saved : FindCheckpoints(output_)) {
      if (saved.step <= told_) continue;
      told_ = saved.step;
      const std::string path = std::filesystem::absolute(saved.path).string();
      std::cout << JsonLine({{"step", saved.step}, {"checkpoint", path}}) << std::endl;
    }
  }

  const std::filesystem::path output_;
  int64_t told_;  // the step of the last checkpoint that was
};

}  // namespace

std::unique_ptr<Reporter> OpenScreen(const ReportOptions& options) {
  if (options.screen.saves) return std::make_unique<EventLines>(options);
  if (options.screen.json) return std::make_unique<JsonScreen>();
  return std::make_unique<ScreenReporter>(options.screen);
}

}  // namespace trireme
