// What `trireme inspect` shows of tensors in files: a checkpoint, a model or adapter directory, a safetensors
// file, a run.
#pragma once

#include <filesystem>

namespace trireme {

// Whether the path is one of these.
bool HoldsTensors(const std::filesystem::path& path);

// Prints the tensors, of a run its checkpoints. With `digests` everything is read: each whole tensor's digest
// is printed, and a checkpoint's pieces are held against theirs.
void InspectTensors(const std::filesystem::path& path, bool digests);

// Prints where two of them differ.
void InspectDifferences(const std::filesystem::path& path, const std::filesystem::path& other);

}  // namespace trireme
