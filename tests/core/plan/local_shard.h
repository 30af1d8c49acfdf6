// A rank's whole local tensor as a shard: the plain reference for the flat shards that programs use.
#pragma once

#include <utility>
#include <vector>

#include "core/plan/shard.h"

namespace trireme {

// Row-major at `data`.
inline Shard LocalShard(const Placement& placement, int rank, void* data) {
  const Shape strides = RowMajorStrides(placement.LocalShape());
  std::vector<ShardBox> boxes;
  for (LocalBox& local : placement.LocalBoxes(rank)) {
    int64_t offset = 0;
    for (size_t dim = 0; dim < strides.size(); ++dim) offset += local.local_offset[dim] * strides[dim];
    boxes.push_back({std::move(local.global), offset, local.replica});
  }
  return {placement.name(), placement.declaration().dtype, placement.GlobalShape(), strides, std::move(boxes), data};
}

}  // namespace trireme
