// The communicators of this process: which handles are live, and which members of a communicator are local.
#pragma once

#include <memory>
#include <string>

#include "twin/hccl/membership/group.h"

namespace twin {

void Register(const std::shared_ptr<Group>& group);

// Invalidates the handle; nullptr if it was not live.
std::shared_ptr<Group> Unregister(HcclComm comm);

// The member of communicator `id` with that rank, if it lives in this process.
std::shared_ptr<Group> FindMember(const std::string& id, uint32_t rank);

// FindGroup, or throws HCCL_E_PARA.
Group& NeedGroup(HcclComm comm);

// Communicators of one device are created one after the other: throws if another thread is creating one. Held
// during creation.
class DeviceTurn {
 public:
  explicit DeviceTurn(int device);
  ~DeviceTurn();
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;

 private:
  int device_;
};

}  // namespace twin
