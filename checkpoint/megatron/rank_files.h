// MegatronFiles: the files of a checkpoint in Megatron's `torch` format, one per model-parallel rank, and where each
// one's tensors belong in the model.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/megatron/checkpoint.h"
#include "checkpoint/megatron/placement.h"

namespace trireme {

struct MegatronChunk {
  std::string key;  // "model", or "model0" where a rank has several
  const PickleValue* tensors = nullptr;
  std::map<int64_t, int64_t> layers;  // from the chunk's own numbers to the model's
};

struct MegatronFile {
  std::filesystem::path path;
  MegatronRank rank;
  std::shared_ptr<MappedFile> bytes;
  std::shared_ptr<const TorchFile> file;
  std::vector<MegatronChunk> chunks;
};

struct MegatronFiles {
  std::vector<MegatronFile> files;
  MegatronLayout layout;
  int64_t local_experts = 0;
  std::shared_ptr<const RunArguments> arguments;
};

// Of a run's arguments; refuses layouts whose parts overlap or that are none.
MegatronLayout LayoutOf(const RunArguments& arguments, const std::string& where);

MegatronFiles OpenMegatronFiles(const std::filesystem::path& iteration);

// The name over the whole model; empty for what is no weight: states of fp8, counters.
std::string WholeName(const MegatronChunk& chunk, const std::string& name);

}  // namespace trireme
