// The directory of rl.sampler.weights: which names the exports in it have, what else may be there, which are removed.
// No torch.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/config.pb.h"

namespace trireme {

inline constexpr char kExportScratch[] = ".export";  // what an export is made of, while it is made

std::filesystem::path ExportPath(const std::filesystem::path& directory, int64_t steps);  // DIR/step-20
// Removes all but the newest `keep` of those up to `newest`.
void RemoveOldExports(const std::filesystem::path& directory, int64_t newest, int keep);
// Refuses a directory for exports that has something else in it. `same_run`: it may have this run's earlier ones.
void CheckWeightsDirectory(const Config& config, bool same_run);

}  // namespace trireme
