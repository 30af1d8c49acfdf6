// The communicators of this process: which handles are alive, and which members of one communicator are here.
#pragma once

#include <memory>
#include <string>

#include "twin/hccl/group.h"

namespace twin {

void Register(const std::shared_ptr<Group>& group);

// Takes the handle out of use; nullptr where it was not in use.
std::shared_ptr<Group> Unregister(HcclComm comm);

// The member of communicator `id` with that rank, if it lives in this process.
std::shared_ptr<Group> FindMember(const std::string& id, uint32_t rank);

// FindGroup, or throws HCCL_E_PARA.
Group& NeedGroup(HcclComm comm);

// Communicators of one device are made one after the other: throws where another thread is at it. Held while
// one is being made.
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
