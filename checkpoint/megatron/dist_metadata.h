// DistMetadata: the `.metadata` of torch.distributed.checkpoint as plain values: which tensors there are, into which
// chunks they are split, and in which file each chunk lies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/plan/box.h"
#include "core/plan/dtype.h"

namespace trireme {

struct DistItem {
  std::string file;
  uint64_t offset = 0, bytes = 0;
};

struct DistChunk {
  Box box;
  DistItem item;
};

struct DistTensor {
  DType dtype = DType::kFp32;
  Shape shape;
  std::vector<DistChunk> chunks;
};

struct DistMetadata {
  std::map<std::string, DistTensor> tensors;
  std::map<std::string, DistItem> objects;  // pickled values
};

DistMetadata ReadDistMetadata(const std::filesystem::path& file);
void WriteDistMetadata(const std::filesystem::path& file, const DistMetadata& metadata);

}  // namespace trireme
