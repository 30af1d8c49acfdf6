// Collectives of members that can access each other's buffers: every byte is read directly from its owner's
// memory. Runs between the arrival of all members and their departure; both are the caller's job.
#pragma once

#include <cstddef>
#include <vector>

#include "twin/hccl/data_path/data_path.h"

namespace twin {

struct Reached {
  std::vector<const std::byte*> sources;  // [ranks] each member's send data, in its buffer or in its slot
  std::vector<std::byte*> outputs;        // [ranks] each member's receive buffer; empty: only our own is writable
};

void RunDirect(DataPath& path, const Operation& operation, const Reached& reached);

}  // namespace twin
