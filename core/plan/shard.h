// Shard: a piece of a named tensor in this process's memory, as the layers and the optimizer pass it to a
// checkpoint. A plain value; the memory belongs to the shard's creator and outlives it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/placement.h"

namespace trireme {

struct ShardBox {
  Box global;
  int64_t offset = 0;  // of the box's first element, in elements from Shard::data
  int replica = 0;     // 0: this rank writes it; others only read it
};

struct Shard {
  std::string key;
  DType dtype;
  Shape global_shape;
  Shape strides;  // in elements, the same for each box: element i of a box is data[offset + sum of i * strides]
  std::vector<ShardBox> boxes;
  void* data;

  // Rejects boxes outside the global shape, mismatched numbers of dims, and boxes without memory.
  Shard(std::string key, DType dtype, Shape global_shape, Shape strides, std::vector<ShardBox> boxes, void* data);
};

// The elements [begin, end) of the flattened local tensor, the first at `data`: one rank's share in a sharded
// optimizer, whose ranks along `distinct` hold different ranges. `key` names the state ("exp_avg/…"), and its
// type may differ from the parameter's.
struct FlatShare {
  int64_t begin = 0;
  int64_t end = 0;
  AxisNames distinct;
};
Shard FlatShard(const Placement& placement, int rank, const FlatShare& share, std::string key, DType dtype, void* data);

}  // namespace trireme
