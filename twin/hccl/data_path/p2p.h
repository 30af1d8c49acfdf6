// Sends, receives and batches of them. A message is a rendezvous: it moves once both sides have offered it,
// and both leave once it has moved. Messages of one batch do not wait for each other.
#pragma once

#include "twin/hccl/data_path/data_path.h"

namespace twin {

void RunPointToPoint(DataPath& path, const Operation& operation);

}  // namespace twin
