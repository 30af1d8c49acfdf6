// RunLog: what a run says of its steps: one object a line in log.jsonl, and a short line for people. On rank
// 0 only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/json.h"

namespace trireme {

struct LoggedStep {
  int64_t step = 0;
  int64_t total_steps = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  int64_t tokens = 0;            // trained in this step
  double tokens_per_second = 0;  // trained or not, padding not counted
  double step_seconds = 0;
  double mfu = 0;
  double memory_gib = 0;
  double epoch = 0;
  double elapsed_seconds = 0;
  int64_t steps_here = 0;  // since the run started or went on
  Json experts = {};       // how routers used them; null where there are none
  std::string skipped;     // why the update was left out; empty: it was made
};

class RunLog {
 public:
  // DIRECTORY/log.jsonl: a new file, or one that is gone on with.
  RunLog(const std::filesystem::path& directory, bool go_on);
  void Write(const LoggedStep& step);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace trireme
