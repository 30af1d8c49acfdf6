// The summary at the end of a run: the result, where it is, and commands to run next, all of which work.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/config.pb.h"
#include "train/report/log_file.h"

namespace trireme {

struct RunEnd {
  int64_t step = 0;         // the last completed step
  int64_t total_steps = 0;  // more than `step` if the run was asked to stop
  double seconds = 0;       // of this start
  bool trained = true;      // otherwise everything was already done before this start
  bool early = false;       // eval.early_stopping ended it
  int64_t final_step = 0;   // whose checkpoint became final/, where that is not the last one

  bool stopped() const { return step < total_steps && !early; }
};

// `program`: how it was started, for the suggested commands.
std::string EndSummary(const Config& config, const RunEnd& end, const LogCurves& curves, const std::string& program);

}  // namespace trireme
