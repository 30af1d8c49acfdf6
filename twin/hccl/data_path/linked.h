// Collectives over links, for members that cannot access each other's buffers: pairwise exchange of blocks
// and slices. Reductions take all sources of a chunk at once, in rank order, so results equal those of the
// direct path bit for bit.
#pragma once

#include "twin/hccl/data_path/data_path.h"

namespace twin {

void RunLinked(DataPath& path, const Operation& operation);

}  // namespace twin
