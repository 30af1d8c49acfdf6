// Connects one member with all others of its communicator once the table of members is known: control and
// data connections, the shared board, each other's device memory. Both sides of a connection prove that they
// know the communicator's secret before any descriptor or message passes.
#pragma once

#include <list>
#include <optional>
#include <vector>

#include "net/door.h"

#include "twin/hccl/membership/group.h"
#include "twin/hccl/membership/membership.h"
#include "twin/hccl/membership/rendezvous.h"

namespace twin {

// Where a member accepts connections from others; open before the member is announced.
struct MemberListeners {
  Fd unix_socket;
  Fd tcp_socket;
};

class Mesh {
 public:
  Mesh(Group& group, const std::vector<MemberInfo>& table, const MemberListeners& listeners,
       RendezvousClient& rendezvous);

  // Fills in the group's peers, board and sockets. Throws at the deadline, or when the rendezvous reports
  // that another member has failed.
  void Build(Deadline deadline);

 private:
  enum class Channel : uint32_t { kControl, kData };

  // A connection to a lower rank, until both sides have proven that they know the secret.
  struct Outgoing {
    uint32_t rank = 0;
    Channel channel{};
    Fd socket;
    std::optional<net::Handshake> handshake;
  };

  bool SharesMemory(const MemberInfo& member) const { return member.memory == self_.memory; }
  bool SameProcess(const MemberInfo& member) const;
  void DescribePeers();
  void ConnectToLower(Deadline deadline);
  void Connect(Outgoing& outgoing, Deadline deadline);
  void AwaitAll(Deadline deadline);
  void AdvanceOutgoing(Deadline deadline);
  void Reconnect(Outgoing& outgoing, Deadline deadline);
  void Welcome(Fd socket, bool over_tcp);
  void ReadReplies(Deadline deadline);
  void Introduce(int socket, Channel channel, bool with_files) const;
  void TakeFiles(uint32_t rank, FrameReader& introduction, std::vector<Fd> files);
  void Keep(uint32_t rank, Channel channel, Fd socket);

  Group& group_;
  Membership& membership_;
  const std::vector<MemberInfo>& table_;
  const MemberInfo& self_;
  const MemberListeners& listeners_;
  RendezvousClient& rendezvous_;
  uint32_t leader_ = 0;    // the lowest rank that shares memory with this one: it creates the board
  uint32_t expected_ = 0;  // connections still to be accepted
  std::list<Outgoing> outgoing_;
  net::Door unix_door_;
  net::Door tcp_door_;
};

}  // namespace twin
