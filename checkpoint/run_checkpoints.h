// The checkpoints in a run's output directory: which exist, which is the newest complete one, which to
// remove.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

std::filesystem::path CheckpointPath(const std::filesystem::path& output,
                                     int64_t step);  // OUTPUT/checkpoint-20

// The step in a checkpoint's name, "checkpoint-20"; nullopt for other names.
std::optional<int64_t> StepOfName(const std::string& name);

struct RunCheckpoint {
  int64_t step = 0;
  std::filesystem::path path;
};

// Directories named checkpoint-N that have a manifest, oldest first. Leftovers of a save or a removal have
// none, or another name.
std::vector<RunCheckpoint> FindCheckpoints(const std::filesystem::path& output);

// The newest whose files are all present; `passed_over` gets a line with the reason for each newer one.
std::optional<RunCheckpoint> NewestComplete(const std::filesystem::path& output,
                                            std::vector<std::string>* passed_over = nullptr);

// Removes the oldest ones beyond `keep` (0: none), but never the one with the lowest validation loss.
void RemoveOldCheckpoints(const std::filesystem::path& output, int keep);

}  // namespace trireme
