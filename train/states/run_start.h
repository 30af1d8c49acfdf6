// Where a run begins: its output directory, and the checkpoint it resumes from, if any. Nothing that exists
// is overwritten: neither another run nor a user's file. No torch.
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
  int64_t step = 0;                                 // already done
  checkpoint::Progress progress = {};               // of the checkpoint
  bool same_run = false;                            // the output directory is this run's own, from an earlier start
};

void RefuseNoOutput(const Config& config);

// Collective, with the output directory locked. Under run.resume: auto a damaged checkpoint is skipped
// with a warning and renamed.
RunStart PrepareRun(const Config& config, Job& job);

// Refuses to resume if the next step's rows would differ from those that the run would have used.
void CheckSameData(const checkpoint::DataPosition& saved, const checkpoint::DataPosition& now,
                   const std::filesystem::path& checkpoint, const Config& config);

// Removes the lines after `step` from log.jsonl; a missing log stays missing.
void CutLog(const std::filesystem::path& log, int64_t step);

}  // namespace trireme
