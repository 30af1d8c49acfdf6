#include "train/report/run_report.h"

#include <iostream>

#include "core/base/error.h"
#include "core/base/process.h"
#include "core/io/atomic_file.h"
#include "train/report/loss_chart.h"

namespace trireme {

RunReport::RunReport(const ReportOptions& options)
    : output_(options.output), reporters_(OpenReporters(options)) {}

void RunReport::Step(const LoggedStep& step, bool logged) {
  logged = logged || step.evaluation.has_value();
  mean_.Add(step);
  LoggedStep line = step;
  if (logged) mean_.Take(line);
  for (const std::unique_ptr<Reporter>& reporter : reporters_) {
    logged ? reporter->Write(line) : reporter->Pass(line);
  }
}

void RunReport::Finish(const Config& config, const RunEnd& end) {
  for (const std::unique_ptr<Reporter>& reporter : reporters_) reporter->Finish();
  const LogCurves curves = ReadCurves(output_ / "log.jsonl");
  WriteAtomicFile(output_ / "loss.svg", DrawLossChart(curves));
  // Of preference training, of reward models, and of policies.
  for (const auto& [name, key] : {std::pair{"margins", "rewards/margins"}, std::pair{"accuracies", "rewards/accuracies"},
                                  std::pair{"margins", "margin"}, std::pair{"accuracies", "accuracy"},
                                  std::pair{"reward", "reward"}, std::pair{"lengths", "completions/mean_length"},
                                  std::pair{"kl", "kl"}, std::pair{"entropy", "entropy"},
                                  std::pair{"clip_ratio", "clip_ratio/region_mean"}}) {
    const LogCurves rewards = ReadCurves(output_ / "log.jsonl", key);
    if (!rewards.train.empty()) WriteAtomicFile(output_ / Concat(name, ".svg"), DrawLossChart(rewards, name));
  }
  std::cout << EndSummary(config, end, curves, ShellWord(ProgramPath())) << std::flush;
}

}  // namespace trireme
