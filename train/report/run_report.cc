#include "train/report/run_report.h"

#include <iostream>

#include "core/base/error.h"
#include "core/base/process.h"
#include "core/config/compare.h"
#include "core/config/load.h"
#include "core/io/atomic_file.h"
#include "train/report/loss_chart.h"

namespace trireme {

ReportOptions ReportOptionsOf(const Config& config, const ScreenOptions& screen) {
  const LogConfig& log = config.log();
  ReportOptions options{.output = config.run().output(),
                        .screen = screen,
                        .clients = {log.report_to().begin(), log.report_to().end()},
                        .project = log.project(),
                        .name = log.name()};
  if (options.name.empty())
    options.name = std::filesystem::absolute(options.output / ".").parent_path().filename().string();
  for (const KeyDifference& set : DifferingKeys(ParseConfig("", "defaults"), config)) {
    const Json value = TryParseJson(set.now);
    options.settings[set.key] = value.is_discarded() ? Json(set.now) : value;
  }
  return options;
}

std::ostream& NoticesOf(const ScreenOptions& screen) { return screen.json ? std::cerr : std::cout; }

RunReport::RunReport(const ReportOptions& options)
    : output_(options.output), notices_(NoticesOf(options.screen)), reporters_(OpenReporters(options)) {}

void RunReport::Step(const LoggedStep& step, bool logged) {
  logged = logged || step.evaluation.has_value();
  LoggedStep line = step;
  if (step.step > 0) mean_.Add(step);
  if (logged && step.step > 0) mean_.Take(line);
  for (const std::unique_ptr<Reporter>& reporter : reporters_) {
    logged ? reporter->Write(line) : reporter->Pass(line);
  }
}

void RunReport::Finish(const Config& config, const RunEnd& end) {
  for (const std::unique_ptr<Reporter>& reporter : reporters_) reporter->Finish();
  const LogCurves curves = ReadCurves(output_ / "log.jsonl");
  WriteAtomicFile(output_ / "loss.svg", DrawLossChart(curves));
  // Of preference training, of reward models, and of policies.
  for (const auto& [name, key] :
       {std::pair{"margins", "rewards/margins"}, std::pair{"accuracies", "rewards/accuracies"},
        std::pair{"margins", "margin"}, std::pair{"accuracies", "accuracy"}, std::pair{"reward", "reward"},
        std::pair{"lengths", "completions/mean_length"}, std::pair{"kl", "kl"}, std::pair{"entropy", "entropy"},
        std::pair{"clip_ratio", "clip_ratio/region_mean"}}) {
    const LogCurves rewards = ReadCurves(output_ / "log.jsonl", key);
    if (!rewards.train.empty()) WriteAtomicFile(output_ / Concat(name, ".svg"), DrawLossChart(rewards, name));
  }
  notices_ << EndSummary(config, end, curves, ShellWord(ProgramPath())) << std::flush;
}

}  // namespace trireme
