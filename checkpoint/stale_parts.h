// Removes what a killed run leaves in its output: temporary directories and files that were never renamed.
#pragma once

#include <filesystem>
#include <vector>

namespace trireme {

// Removes OUTPUT/checkpoint-N.part, OUTPUT/final.part, and files NAME.part-PROCESS; returns what was removed.
// The caller must hold the output's lock: a live run's own temporaries look the same. Does not look below the
// output's subdirectories.
std::vector<std::filesystem::path> RemoveStaleParts(const std::filesystem::path& output);

}  // namespace trireme
