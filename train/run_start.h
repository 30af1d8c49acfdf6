// Where a run begins: its output directory, and the checkpoint it resumes from, if any. Nothing that is there
// is written over: not another run, nor a file of the user's own. No torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "checkpoint/manifest.pb.h"
#include "core/comm/job.h"
#include "core/config.pb.h"

namespace trireme {

struct RunStart {
  std::filesystem::path output;
  std::optional<std::filesystem::path> checkpoint;  // to resume from
  int64_t step = 0;                                 // done already
  bool same_run = false;  // the output directory is this run's own, from an earlier start
};

void RefuseNoOutput(const Config& config);

// Collective, with the output directory locked. Under run.resume: auto a damaged checkpoint is passed over
// with a warning and gets another name.
RunStart PrepareRun(const Config& config, Job& job);

// Refuses to resume where the rows of the next step would not be those that the run would have taken.
void CheckSameData(const checkpoint::DataPosition& saved, const checkpoint::DataPosition& now,
                   const std::filesystem::path& checkpoint, const Config& config);

// Takes the lines behind `step` out of log.jsonl; a log that is not there stays so.
void CutLog(const std::filesystem::path& log, int64_t step);

}  // namespace trireme
