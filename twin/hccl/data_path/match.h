// Compares what the members of a group posted for one collective. All members see the same posts, so all find
// the same mismatch and report it identically.
#pragma once

#include "twin/hccl/data_path/data_path.h"

namespace twin {

// Throws HcclFailure (HCCL_E_PARA) naming two ranks and their two values.
void MatchPosts(const DataPath& path, const Operation& operation);

}  // namespace twin
