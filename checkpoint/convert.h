// Converts weights between directory formats: a Hugging Face model to a checkpoint and back, tensor by
// tensor, so that no rank ever has more than one tensor in memory. Any number of ranks share the work. Knows
// no model: names, shapes and bytes stay the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/hf_directory.h"
#include "checkpoint/packed_writer.h"
#include "checkpoint/process_group.h"
#include "core/plan/dtype.h"

namespace trireme {

// Changes a tensor during the conversion, in fp32, or leaves it as it is.
class TensorChange {
 public:
  virtual ~TensorChange() = default;
  virtual bool Changes(const std::string& name) const = 0;
  virtual void Apply(const std::string& name, std::vector<float>& values) const = 0;
  // Tensors that the source does not have, in the type of its others; nullptr: none.
  virtual const TensorSource* Adds(const std::string& /*name*/) const { return nullptr; }
  virtual std::vector<std::string> Added() const { return {}; }
};

struct ConvertOptions {
  std::optional<DType> dtype{};         // of floating-point tensors; nullopt: each keeps its own
  int64_t shard_bytes = 5'000'000'000;  // largest weights file; a larger tensor gets its own
  const TensorChange* change = nullptr;
  const PackOptions* pack = nullptr;    // of a Hugging Face directory: matrices that are written packed
  std::set<std::string> left_out{};     // tensors of the source that are not written
  std::optional<std::string> config{};  // the text of the Hugging Face directory's config.json; nullopt: the source's
  bool replace = false;                 // an existing target
  bool experts_apart = false;           // for an adapter: one tensor per expert
  bool value_head = true;               // a value head is written beside the model or adapter, if the source has one
  std::string writer = "trireme";       // the program, for a checkpoint's manifest
};

// Whether it is a checkpoint of a LoRA run, whose weights are an adapter.
bool HoldsAdapter(const HfDirectory& source);

// An adapter's checkpoint becomes a PEFT adapter directory. Both write to a temporary directory and rename it
// when it is complete; an existing target is refused. Collective.
void ExportHuggingFace(const HfDirectory& source, const std::filesystem::path& target, const ConvertOptions& options,
                       const ProcessGroup& process_group);
void ImportCheckpoint(const HfDirectory& source, const std::filesystem::path& target, const ConvertOptions& options,
                      const ProcessGroup& process_group);

}  // namespace trireme
