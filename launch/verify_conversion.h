// Whether two model directories are the same model: compares their losses on the same few tokens, in fp32.
#pragma once

#include <filesystem>

#include "core/comm/job.h"

namespace trireme {

// Rejects, before anything is written, a model that cannot be run.
void RefuseUnverifiable(const std::filesystem::path& directory);

// Collective. The largest difference between per-token losses, which are entries of the logits' log-softmax.
double LossDifference(const std::filesystem::path& a, const std::filesystem::path& b, Job& job);

}  // namespace trireme
