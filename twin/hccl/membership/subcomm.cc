// The first member starts a rendezvous and tells the others where; from then on it is a communicator like any
// other.
#include "twin/hccl/membership/subcomm.h"

#include "twin/acl/internal.h"
#include "twin/hccl/membership/control.h"
#include "twin/hccl/membership/join.h"
#include "twin/hccl/membership/membership.h"
#include "twin/hccl/membership/rendezvous.h"

namespace twin {
namespace {

std::string Listed(const std::vector<uint32_t>& ranks) {
  std::string text;
  for (const uint32_t rank : ranks) {
    if (!text.empty()) text += ',';
    text += std::to_string(rank);
  }
  return text;
}

void CheckParent(const Group& parent) {
  if (!parent.is_global) {
    throw HcclFailure(HCCL_E_NOT_SUPPORT, "communicator " + parent.name +
                                              " is a sub-communicator; create sub-communicators from the global "
                                              "one only");
  }
  if (parent.failure() != HCCL_SUCCESS) {
    throw HcclFailure(parent.failure(), "communicator " + parent.name + " has failed: " + parent.failure_text());
  }
  if (const int device = NeedDevice(); device != parent.device) {
    throw HcclFailure(HCCL_E_PARA, "this thread's device is " + std::to_string(device) + ", but communicator " +
                                       parent.name + " is on device " + std::to_string(parent.device));
  }
}

void CheckRequest(const Group& parent, const SubCommRequest& request) {
  const std::string ranks = "rankIds [" + Listed(request.ranks) + "]";
  for (size_t index = 0; index < request.ranks.size(); ++index) {
    if (request.ranks[index] >= parent.size) {
      throw HcclFailure(HCCL_E_PARA, ranks + " holds " + std::to_string(request.ranks[index]) + ", but communicator " +
                                         parent.name + " has " + std::to_string(parent.size) + " ranks");
    }
    if (index > 0 && request.ranks[index] <= request.ranks[index - 1]) {
      throw HcclFailure(HCCL_E_PARA, ranks + " is not in ascending order without repeats");
    }
  }
  if (request.rank >= request.ranks.size() || request.ranks[request.rank] != parent.rank) {
    throw HcclFailure(HCCL_E_PARA, "subCommRankId is " + std::to_string(request.rank) + " of " + ranks +
                                       ", which is not the caller: it is rank " + std::to_string(parent.rank) +
                                       " of communicator " + parent.name);
  }
}

RootInfo Invite(Group& parent, const SubCommRequest& request, const Settings& settings) {
  const RootInfo root = StartRendezvous(settings);
  const Frame invitation = FrameWriter()
                               .Put(request.id)
                               .Put(root.id)
                               .Put(root.host)
                               .Put(root.address)
                               .Put(root.port)
                               .Put(root.secret)
                               .Take(FrameType::kSubRoot);
  for (const uint32_t member : request.ranks) {
    if (member != parent.rank) SendControl(parent, member, invitation);
  }
  return root;
}

RootInfo AwaitInvitation(Group& parent, const SubCommRequest& request) {
  const auto wanted = [&](const Inbox::Message& message) {
    return message.frame.type == FrameType::kSubRoot && FrameReader(message.frame).Get<uint64_t>() == request.id;
  };
  const Deadline deadline = After(parent.options.connect_timeout_s);
  const uint32_t leader = request.ranks.front();
  std::optional<Inbox::Message> message;
  // In short steps, because the death of a member of the parent must end the wait. An invitation from a rank
  // other than the expected leader is followed too: the rendezvous then tells both sides how their arguments
  // differ.
  while (!(message = parent.membership->inbox.Take(wanted, std::chrono::milliseconds(50)))) {
    if (parent.failure() != HCCL_SUCCESS) throw HcclFailure(parent.failure(), parent.failure_text());
    if (parent.has_left(leader)) throw HcclFailure(HCCL_E_REMOTE, Describe(parent.peers[leader]) + " has left");
    if (After(0) > deadline) {
      throw HcclFailure(HCCL_E_TIMEOUT, Describe(parent.peers[leader]) +
                                            ", the first of the sub-communicator's ranks [" + Listed(request.ranks) +
                                            "], did not create sub-communicator " + std::to_string(request.id) +
                                            " within the connect timeout");
    }
  }
  FrameReader reader(message->frame);
  reader.Get<uint64_t>();
  RootInfo root;
  root.id = reader.GetText();
  root.host = reader.GetText();
  root.address = reader.GetText();
  root.port = reader.Get<uint16_t>();
  root.secret = reader.GetText();
  return root;
}

}  // namespace

HcclComm JoinSubComm(Group& parent, const SubCommRequest& request, const CommSettings& comm, const Settings& settings) {
  CheckParent(parent);
  CheckRequest(parent, request);
  JoinRequest join;
  join.rank = request.rank;
  join.size = static_cast<uint32_t>(request.ranks.size());
  join.name = comm.name.empty() ? parent.name + "_sub_" + std::to_string(request.id) : comm.name;
  join.is_global = false;
  join.options = comm.options;
  join.agreement = ", sub-communicator " + std::to_string(request.id) + " of ranks [" + Listed(request.ranks) + "]";
  const RootInfo root = request.rank == 0 ? Invite(parent, request, settings) : AwaitInvitation(parent, request);
  return Join(root, join, settings);
}

}  // namespace twin
