// Sub-communicators: created from some ranks of a global communicator, whose control connections their
// members use to meet.
#pragma once

#include <cstdint>
#include <vector>

#include "twin/hccl/membership/config.h"
#include "twin/hccl/membership/group.h"

namespace twin {

struct SubCommRequest {
  std::vector<uint32_t> ranks;  // in the parent; the index is the rank in the sub-communicator
  uint64_t id = 0;
  uint32_t rank = 0;
};

HcclComm JoinSubComm(Group& parent, const SubCommRequest& request, const CommSettings& comm, const Settings& settings);

}  // namespace twin
