// Writes the two files of a PEFT adapter directory. convert.h writes full models.
#pragma once

#include <filesystem>
#include <optional>

#include "checkpoint/adapter_directory.h"
#include "core/plan/dtype.h"

namespace trireme {

struct AdapterOptions {
  std::optional<DType> dtype{};  // nullopt: each tensor keeps its own
  // All experts of a layer in one tensor, as in transformers 5 (adapter_fusion.h): for models with experts.
  // Otherwise one by one, as in transformers 4.
  bool fuse_experts = false;
  bool names_in_memory = false;  // the model's files have older names (memory_names.h)
};

// Into an existing directory. The adapter lists experts one by one.
void WriteAdapter(const AdapterDirectory& adapter, const std::filesystem::path& directory,
                  const AdapterOptions& options);

}  // namespace trireme
