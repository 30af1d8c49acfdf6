// RankCargo: pieces of tensors that the ranks of a group give each other, all at once: one message for each pair of
// ranks. Who gives what to whom is decided elsewhere.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <vector>

#include "core/comm/communicator.h"

namespace trireme {

struct RankCargo {  // by rank of the group, of any types; without what stays on this rank
  std::map<int, std::vector<at::Tensor>> sent;
  std::map<int, std::vector<at::Tensor>> received;  // views to fill, in the order in which the other rank sends
};

// Collective over the ranks that send or receive anything.
void Exchange(const RankCargo& cargo, Communicator& group, at::Device device);

}  // namespace trireme
