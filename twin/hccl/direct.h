// Collectives of members who can reach each other's buffers: every byte is read straight from where its owner
// has it. Runs between the arrival of all members and their departure; both are the caller's.
#pragma once

#include <cstddef>
#include <vector>

#include "twin/hccl/data_path.h"

namespace twin {

struct Reached {
  std::vector<const std::byte*> sources;  // [ranks] each member's send data, in its buffer or in its slot
  std::vector<std::byte*>
      outputs;  // [ranks] each member's receive buffer; empty: only our own may be written
};

void RunDirect(DataPath& path, const Operation& operation, const Reached& reached);

}  // namespace twin
