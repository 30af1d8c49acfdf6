// The memory charge and the inbox of a member.
#include "twin/hccl/membership/membership.h"

#include <algorithm>

namespace twin {

MemoryCharge::MemoryCharge(int device, size_t bytes) : device_(device), bytes_(bytes) {
  if (ChargeMemory(device, bytes) == ACL_SUCCESS) return;
  size_t free = 0;
  size_t total = 0;
  aclrtGetMemInfo(ACL_HBM_MEM, &free, &total);
  throw HcclFailure(HCCL_E_MEMORY, "a communicator needs 2 x hcclBufferSize = " + std::to_string(bytes >> 20) +
                                       " MB of device " + std::to_string(device) + ", which has " +
                                       std::to_string(free >> 20) + " of " + std::to_string(total >> 20) +
                                       " MB free; lower HCCL_BUFFSIZE or hcclBufferSize, or free memory first");
}

MemoryCharge::~MemoryCharge() { ReleaseMemory(device_, bytes_); }

void Inbox::Put(Message message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  messages_.push_back(std::move(message));
  arrived_.notify_all();
}

std::optional<Inbox::Message> Inbox::Take(const Wanted& wanted, std::chrono::milliseconds patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  std::optional<Message> taken;
  arrived_.wait_for(lock, patience, [&] {
    const auto found = std::find_if(messages_.begin(), messages_.end(), wanted);
    if (found == messages_.end()) return false;
    taken = std::move(*found);
    messages_.erase(found);
    return true;
  });
  return taken;
}

}  // namespace twin
