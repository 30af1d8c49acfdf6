// MegatronCheckpoint: one checkpoint of Megatron-LM, MindSpeed-LLM or ms-swift's `megatron`, opened: its weights and
// the arguments of its run. Not the optimizer's states. Formats `torch` (rank_files.cc) and `torch_dist`
// (dist_files.cc).
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "checkpoint/megatron/run_arguments.h"
#include "checkpoint/megatron/tensors.h"
#include "core/io/mapped_file.h"

namespace trireme {

struct MegatronCheckpoint {
  std::filesystem::path path;  // of the iteration
  int64_t iteration = 0;
  MegatronTensors weights;
  std::shared_ptr<const RunArguments> arguments;  // nullptr: none were saved
  std::vector<std::shared_ptr<MappedFile>> files;
};

// A directory with latest_checkpointed_iteration.txt, or one iteration's.
bool IsMegatron(const std::filesystem::path& directory);

// Refuses, with a name, what is not whole or of another format.
MegatronCheckpoint OpenMegatron(const std::filesystem::path& directory);

// One function a format; `iteration` is the checkpoint's own directory.
void ReadRankFiles(const std::filesystem::path& iteration, MegatronCheckpoint& result);
void ReadDistFiles(const std::filesystem::path& iteration, MegatronCheckpoint& result);

}  // namespace trireme
