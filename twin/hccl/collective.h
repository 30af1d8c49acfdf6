// One collective from post to end: arrival of all members, comparison, choice of the way, departure.
#pragma once

#include "twin/hccl/data_path.h"

namespace twin {

void RunCollective(DataPath& path, const Operation& operation);

}  // namespace twin
