// ExportMegatron: a model's weights as a Megatron checkpoint, for a run of Megatron-LM, MindSpeed-LLM or ms-swift's
// `megatron` with the given layout. Weights only. The inverse of checkpoint.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/hf_directory.h"
#include "checkpoint/megatron/placement.h"
#include "checkpoint/process_group.h"
#include "core/plan/dtype.h"

namespace trireme {

struct MegatronExport {
  enum class Format { kTorch, kTorchDist };

  Format format = Format::kTorch;
  MegatronLayout layout{};
  int64_t virtual_stages = 1;           // model chunks per pipeline stage
  std::vector<int64_t> stage_layers{};  // of each stage; empty: the same
  int64_t vocabulary_divisor = 128;     // --make-vocab-size-divisible-by
  bool transformer_engine = false;      // --transformer-impl
  std::optional<DType> dtype{};         // nullopt: each tensor keeps its own
  std::string config{};                 // the text of the model's config.json
  bool replace = false;                 // an existing target
};

// Refuses before any work a family without names in Megatron, tensors without one, and sizes that do not divide. Writes
// to a temporary directory and renames it when it is complete. Collective.
void ExportMegatron(const HfDirectory& source, const std::filesystem::path& target, const MegatronExport& options,
                    const ProcessGroup& process_group);

// The options of a Megatron run that loads it.
std::string MegatronFlags(const MegatronExport& options);

}  // namespace trireme
