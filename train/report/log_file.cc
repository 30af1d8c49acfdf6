#include "train/report/log_file.h"

#include <fstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "train/report/log_line.h"

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

void LogFile::Write(const LoggedStep& step) { file_.Append(JsonLine(LogLineOf(step)) + "\n"); }

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
