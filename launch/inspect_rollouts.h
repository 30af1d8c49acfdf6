// What is in a file of rollouts, for people: rewards and lengths by step, and one completion. Other paths are handled
// in other files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>

namespace trireme {

// Whether its first record is a completion with its prompt's and its own tokens, and no label.
bool HoldsRollouts(const std::filesystem::path& path);
// sample: which completion is shown, counted from 1.
void InspectRollouts(const std::filesystem::path& path, int64_t sample, std::ostream& out);

}  // namespace trireme
