// LogFile: log.jsonl of a run, one object per logged step.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/report/appended_file.h"
#include "train/report/reporter.h"

namespace trireme {

class LogFile : public Reporter {
 public:
  // DIRECTORY/log.jsonl: a new file, or one to continue.
  LogFile(const std::filesystem::path& directory, bool go_on);
  void Write(const LoggedStep& step) override;
  // Throws where the log is no longer where it was.
  void Finish() override { file_.CheckIsThere(); }

 private:
  AppendedFile file_;
};

// A number of each logged step and of each evaluation, as far as the log was written.
struct LogCurves {
  struct Point {
    int64_t step = 0;
    double loss = 0;
  };
  std::vector<Point> train, eval;
};
LogCurves ReadCurves(const std::filesystem::path& log, const std::string& name = "loss");

}  // namespace trireme
