// The `torch` format, written: one file per model-parallel rank. The inverse of rank_files.h.
#pragma once

#include <filesystem>

#include "checkpoint/megatron/written_model.h"

namespace trireme {

// The files of every `ranks`-th model-parallel rank from `rank` on, into the iteration's directory.
void WriteRankFiles(const WrittenModel& model, const MegatronExport& options, const std::filesystem::path& iteration,
                    int rank, int ranks);

}  // namespace trireme
