// The record of a run: run.yaml, the settings of the start that trains, and run-1.yaml, run-2.yaml …, those
// of the starts before, the oldest first. What a run did is never told otherwise by a later start. No torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/config.pb.h"
#include "core/config/compare.h"
#include "train/run_start.h"

namespace trireme {

// What is otherwise than in the run.yaml that is there; nothing where there is none, or one that cannot be
// read any more.
std::vector<KeyDifference> DifferencesFromRecord(const std::filesystem::path& output, const Config& config);

// Whether all `total_steps` are done and final/ is there: nothing is left to do. Refuses, naming the keys,
// settings under which the run would have become another, and fewer steps than are done.
bool IsComplete(const Config& config, const RunStart& start, int64_t total_steps);

// run.yaml for a start that trains; the one that is there is kept under the next number.
void WriteRecord(const std::filesystem::path& output, const Config& config);

}  // namespace trireme
