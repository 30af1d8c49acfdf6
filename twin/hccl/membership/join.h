// Creates one member of one communicator: from a root info to a live group.
#pragma once

#include <memory>
#include <string>

#include "twin/hccl/membership/group.h"
#include "twin/hccl/membership/rootinfo.h"
#include "twin/hccl/settings.h"

namespace twin {

struct JoinRequest {
  uint32_t rank = 0;
  uint32_t size = 0;
  std::string name;  // empty: derived from the root info
  bool is_global = true;
  GroupOptions options;
  std::string agreement;  // anything else, beyond the options, that all members must agree on
};

// Blocks until all members have joined, on the calling thread's device. Throws HcclFailure; nothing is
// leaked.
HcclComm Join(const RootInfo& root, const JoinRequest& request, const Settings& settings);

// The calling thread's device; throws if none was set.
int NeedDevice();

}  // namespace twin
