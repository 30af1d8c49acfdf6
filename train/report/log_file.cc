#include "train/report/log_file.h"

#include <fstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"

namespace trireme {

namespace {

std::filesystem::path PathOf(const std::filesystem::path& directory, bool go_on) {
  const std::filesystem::path path = directory / "log.jsonl";
  if (!go_on && PathExists(path)) {
    throw InputError(path.string(), " already exists, from an earlier run; choose another run.output");
  }
  return path;
}

}  // namespace

LogFile::LogFile(const std::filesystem::path& directory, bool go_on) : file_(PathOf(directory, go_on)) {}

void LogFile::Write(const LoggedStep& step) {
  Json line = {{"step", step.step},
               {"loss", step.loss},
               {"grad_norm", step.grad_norm},
               {"learning_rate", step.learning_rate},
               {"tokens", step.tokens},
               {"tokens_per_second", step.tokens_per_second},
               {"step_seconds", step.step_seconds},
               {"data_seconds", step.data_seconds},
               {"mfu", step.mfu},
               {"memory_gib", step.memory_gib},
               {"epoch", step.epoch},
               {"elapsed_seconds", step.elapsed_seconds},
               {"remaining_seconds", step.remaining_seconds()}};
  if (step.mfu > 1) line["mfu_unsure"] = "above 1: the machine was slower when its peak was measured";
  if (!step.mtp_loss.empty()) line["mtp_loss"] = step.mtp_loss;
  for (const auto& [name, value] : step.metrics) line[name] = value;
  if (!step.experts.is_null()) line["experts"] = step.experts;
  if (!step.skipped.empty()) line["skipped"] = step.skipped;
  if (step.evaluation) {
    line["eval_loss"] = step.evaluation->loss;
    for (const auto& [name, value] : step.evaluation->metrics) line["eval_" + name] = value;
    if (step.evaluation->metrics.empty()) line["eval_token_accuracy"] = step.evaluation->accuracy;
    line["eval_seconds"] = step.evaluation->seconds;
  }
  file_.Append(JsonLine(line) + "\n");
}

std::unique_ptr<Reporter> OpenLogFile(const ReportOptions& options) {
  return std::make_unique<LogFile>(options.output, options.go_on);
}

LogCurves ReadCurves(const std::filesystem::path& log, const std::string& name) {
  LogCurves curves;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const Json object = TryParseJson(line);
    if (!object.is_object() || !object.contains("step")) continue;
    const int64_t step = object["step"].get<int64_t>();
    // A loss that was not finite stands there as null.
    const auto add = [&](const std::string& key, std::vector<LogCurves::Point>& curve) {
      const auto found = object.find(key);
      if (found != object.end() && found->is_number()) curve.push_back({step, found->get<double>()});
    };
    add(name, curves.train);
    add("eval_" + name, curves.eval);
  }
  return curves;
}

}  // namespace trireme
