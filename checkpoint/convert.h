// Weights from one kind of directory to another: a Hugging Face model to a checkpoint and back, tensor by
// tensor, so that no rank ever has more than one tensor in memory. Any number of ranks share the work. Knows
// no model: names, shapes and bytes stay what they are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/crew.h"
#include "checkpoint/hf_directory.h"
#include "core/plan/dtype.h"

namespace trireme {

// Changes a tensor on its way, in fp32, or leaves it as it is.
class TensorChange {
 public:
  virtual ~TensorChange() = default;
  virtual bool Changes(const std::string& name) const = 0;
  virtual void Apply(const std::string& name, std::vector<float>& values) const = 0;
};

struct ConvertOptions {
  std::optional<DType> dtype{};         // of floating-point tensors; none: each keeps its own
  int64_t shard_bytes = 5'000'000'000;  // largest weights file; a larger tensor has one alone
  const TensorChange* change = nullptr;
  bool replace = false;            // a target that is there
  bool experts_apart = false;      // of an adapter: one by one
  std::string writer = "trireme";  // the program, for a checkpoint's manifest
};

// Whether it is a checkpoint of a LoRA run: its weights are an adapter's.
bool HoldsAdapter(const HfDirectory& source);

// An adapter's checkpoint becomes a PEFT adapter directory. Both write aside and give the target its name
// when it is complete; a target that is there is refused. Collective.
void ExportHuggingFace(const HfDirectory& source, const std::filesystem::path& target,
                       const ConvertOptions& options, const Crew& crew);
void ImportCheckpoint(const HfDirectory& source, const std::filesystem::path& target,
                      const ConvertOptions& options, const Crew& crew);

}  // namespace trireme
