// What a killed run leaves in its output: folders and files that were written aside and never got their names.
#pragma once

#include <filesystem>
#include <vector>

namespace trireme {

// Removes OUTPUT/checkpoint-N.part, OUTPUT/final.part, and files NAME.part-PROCESS; gives what was removed. Only for who
// holds the output's lock: a live run's own look the same. Nothing below the output's folders is looked at.
std::vector<std::filesystem::path> RemoveStaleParts(const std::filesystem::path& output);

}  // namespace trireme
