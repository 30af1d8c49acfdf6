// Writes a PEFT adapter directory's two files. Where a checkpoint's whole model goes is convert.h.
#pragma once

#include <filesystem>
#include <optional>

#include "checkpoint/adapter_directory.h"
#include "core/plan/dtype.h"

namespace trireme {

struct AdapterOptions {
  std::optional<DType> dtype{};  // none: each tensor keeps its own
  // All experts of a layer in one tensor, as transformers 5 has them (adapter_fusion.h): for models with
  // experts. Otherwise one by one, as transformers 4 has them.
  bool fuse_experts = false;
};

// Into a directory that is there. The adapter names experts one by one.
void WriteAdapter(const AdapterDirectory& adapter, const std::filesystem::path& directory,
                  const AdapterOptions& options);

}  // namespace trireme
