// What `trireme inspect` shows for tensors in files: a checkpoint, a model or adapter directory, a
// safetensors file, a run.
#pragma once

#include <filesystem>

namespace trireme {

// Whether the path is one of these.
bool HoldsTensors(const std::filesystem::path& path);

// Prints the tensors, or a run's checkpoints. With `digests` everything is read: each tensor's digest
// is printed, and a checkpoint's pieces are verified against theirs.
void InspectTensors(const std::filesystem::path& path, bool digests);

// Prints the differences between two of them.
void InspectDifferences(const std::filesystem::path& path, const std::filesystem::path& other);

}  // namespace trireme
