// The checkpoints in a run's output directory: which there are, which is the newest complete one, which go.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

std::filesystem::path CheckpointPath(const std::filesystem::path& output,
                                     int64_t step);  // OUTPUT/checkpoint-20

// The step of a checkpoint's name, "checkpoint-20"; nothing where it has another name.
std::optional<int64_t> StepOfName(const std::string& name);

struct RunCheckpoint {
  int64_t step = 0;
  std::filesystem::path path;
};

// Folders named checkpoint-N that have a manifest, oldest first. What a save or a removal left behind has
// none, or another name.
std::vector<RunCheckpoint> FindCheckpoints(const std::filesystem::path& output);

// The newest whose files are all there; `passed_over` gets why newer ones are not it, a line each.
std::optional<RunCheckpoint> NewestComplete(const std::filesystem::path& output,
                                            std::vector<std::string>* passed_over = nullptr);

// Removes the oldest ones beyond `keep` (0: none), but never the one with the lowest validation loss.
void RemoveOldCheckpoints(const std::filesystem::path& output, int keep);

}  // namespace trireme
