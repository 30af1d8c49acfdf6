// One collective from start to finish: arrival of all members, comparison, choice of the path, departure.
#pragma once

#include "twin/hccl/data_path/data_path.h"

namespace twin {

void RunCollective(DataPath& path, const Operation& operation);

}  // namespace twin
