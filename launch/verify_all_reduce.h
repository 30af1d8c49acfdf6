// One all-reduce of each type over a group, checked element by element against the closed form.
#pragma once

#include <string>
#include <vector>

#include "core/comm/communicator.h"

namespace trireme {

// The names of the types that were verified; throws at the first wrong element. Collective over the group.
std::vector<std::string> VerifyAllReduce(Communicator& communicator);

}  // namespace trireme
