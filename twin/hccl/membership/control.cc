// Sending and handling control messages.
#include "twin/hccl/membership/control.h"

#include "twin/hccl/membership/membership.h"
#include "twin/hccl/membership/monitor.h"
#include "twin/hccl/membership/registry.h"

namespace twin {

void SendControl(Group& group, uint32_t to, const Frame& frame) {
  if (group.peers[to].same_process) {
    const std::shared_ptr<Group> peer = FindMember(group.membership->id, to);
    if (peer == nullptr) throw HcclFailure(HCCL_E_REMOTE, Describe(group.peers[to]) + " has left");
    HandleControl(*peer, group.rank, frame);
    return;
  }
  SendFrame(group.membership->control[to].get(), frame, After(group.options.connect_timeout_s));
}

void HandleControl(Group& group, uint32_t from, Frame frame) {
  if (frame.type == FrameType::kGoodbye) {
    group.MarkLeft(from);
  } else {
    group.membership->inbox.Put({from, std::move(frame)});
  }
}

void Leave(Group& group) {
  for (const Peer& peer : group.peers) {
    if (peer.rank == group.rank || group.has_left(peer.rank)) continue;
    try {
      SendControl(group, peer.rank, {FrameType::kGoodbye, ""});
    } catch (const HcclFailure&) {
      // A member that cannot be told is gone itself.
    }
  }
  Monitor::Get().Forget(&group);
}

}  // namespace twin
