#include "train/run_log.h"

#include <iomanip>
#include <iostream>
#include <sstream>

#include "core/base/error.h"

namespace trireme {
namespace {

std::string LineForPeople(const LoggedStep& step, double remaining_seconds) {
  std::ostringstream line;
  line << "step " << step.step << "/" << step.total_steps << std::fixed << std::setprecision(4) << "  loss "
       << step.loss << "  norm " << std::setprecision(3) << step.grad_norm << std::scientific
       << std::setprecision(2) << "  lr " << step.learning_rate << std::fixed << std::setprecision(0) << "  "
       << step.tokens_per_second << " tokens/s" << std::setprecision(2) << "  " << step.step_seconds
       << " s  left " << std::setprecision(0) << remaining_seconds << " s";
  if (!step.skipped.empty()) line << "  update left out: " << step.skipped;
  return line.str();
}

}  // namespace

RunLog::RunLog(const std::filesystem::path& directory, bool go_on) : path_(directory / "log.jsonl") {
  if (!go_on && std::filesystem::exists(path_)) {
    throw InputError(path_.string(), " is there already, from an earlier run; choose another run.output");
  }
  file_.open(path_, std::ios::app);
  if (!file_) throw InputError(path_.string(), " cannot be written; does the directory allow it?");
}

void RunLog::Write(const LoggedStep& step) {
  const double remaining = step.elapsed_seconds / static_cast<double>(step.steps_here) *
                           static_cast<double>(step.total_steps - step.step);
  Json line = {{"step", step.step},
               {"loss", step.loss},
               {"grad_norm", step.grad_norm},
               {"learning_rate", step.learning_rate},
               {"tokens", step.tokens},
               {"tokens_per_second", step.tokens_per_second},
               {"step_seconds", step.step_seconds},
               {"mfu", step.mfu},
               {"memory_gib", step.memory_gib},
               {"epoch", step.epoch},
               {"elapsed_seconds", step.elapsed_seconds},
               {"remaining_seconds", remaining}};
  if (!step.experts.is_null()) line["experts"] = step.experts;
  if (!step.skipped.empty()) line["skipped"] = step.skipped;
  if (!(file_ << JsonLine(line) << std::endl)) {
    throw RuntimeError(path_.string(), " cannot be written any more; is the disk full?");
  }
  std::cout << LineForPeople(step, remaining) << std::endl;
}

}  // namespace trireme
