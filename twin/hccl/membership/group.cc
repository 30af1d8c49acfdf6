// The communicator state that both parts share; see group.h.
#include "twin/hccl/membership/group.h"

#include "twin/acl/internal.h"
#include "twin/hccl/membership/membership.h"

namespace twin {

Group::Group() = default;

Group::~Group() { data_path.reset(); }  // before the memory and sockets it uses, which membership owns

void Group::SetSize(uint32_t members) {
  size = members;
  peers.resize(members);
  left_ = std::vector<std::atomic<bool>>(members);
}

void Group::Fail(HcclResult code, const std::string& why) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.load(std::memory_order_relaxed) != HCCL_SUCCESS) return;
    failure_text_ = why;
    failure_.store(code, std::memory_order_release);
  }
  SetRecentError("communicator " + name + ", rank " + std::to_string(rank) + ": " + why);
}

std::string Group::failure_text() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_text_;
}

void Group::MarkLeft(uint32_t member) {
  if (!left_[member].exchange(true, std::memory_order_acq_rel)) left_count_.fetch_add(1, std::memory_order_acq_rel);
}

std::string Describe(const Peer& peer) {
  return "rank " + std::to_string(peer.rank) + " (host " + peer.host.substr(0, peer.host.find('/')) + ", process " +
         std::to_string(peer.process_id) + ", device " + std::to_string(peer.device) + ")";
}

}  // namespace twin
