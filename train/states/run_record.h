// The record of a run: run.yaml, the settings of the current start, and run-1.yaml, run-2.yaml …, those
// of earlier starts, oldest first. A later start never rewrites the record of an earlier one. No torch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "core/config.pb.h"
#include "core/config/compare.h"
#include "train/states/run_start.h"

namespace trireme {

// The settings of the run that this one resumes, as its run.yaml has them; nothing for a new run, or where they can no
// longer be read.
std::optional<Config> ResumedSettings(const RunConfig& run);

// Differences from the existing run.yaml; empty if there is none, or one that can no longer be
// read.
std::vector<KeyDifference> DifferencesFromRecord(const std::filesystem::path& output, const Config& config);

// Whether all `total_steps` are done and final/ exists: nothing is left to do. Rejects, naming the keys,
// settings that would have made it a different run, and fewer steps than are done.
bool IsComplete(const Config& config, const RunStart& start, int64_t total_steps);

// run.yaml for a start that trains; an existing one is kept under the next number.
void WriteRecord(const std::filesystem::path& output, const Config& config);

}  // namespace trireme
