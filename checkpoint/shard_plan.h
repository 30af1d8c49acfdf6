// ShardPlan: which tensors go into which safetensors file, and at which offset. Numbers and names only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/box.h"
#include "core/plan/dtype.h"

namespace trireme {

struct PlannedTensor {
  std::string name;
  DType dtype = DType::kFp32;
  Shape shape;
  uint64_t offset = 0;      // in the file, header included
  std::string matrix = {};  // whose packed form it is a part of; empty: none's

  uint64_t bytes() const { return static_cast<uint64_t>(Elements(shape) * ByteSize(dtype)); }
};

struct PlannedShard {
  std::string file;
  std::string header;  // preceded by its length
  std::vector<PlannedTensor> tensors;
  uint64_t bytes = 0;  // of the file
};

// One file model.safetensors, or model-00001-of-00003.safetensors and so on: tensors in the given order, as
// many in each as fit into `most_bytes`. Within a file larger element types come first, then names, as in the
// format's own writer.
std::vector<PlannedShard> PlanShards(const std::vector<PlannedTensor>& tensors, int64_t most_bytes);

// model.safetensors.index.json of several shards.
std::string ShardIndex(const std::vector<PlannedShard>& shards);

}  // namespace trireme
