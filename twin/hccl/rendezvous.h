// How the members of one communicator find each other: a server in the root's process, named by the root
// info, to which every member connects. Whoever proves no knowledge of the root info's secret is not heard at all.
// It checks that the members' arguments agree, hands out the table of members, and lets all go on only when all
// are connected to each other; what goes wrong with one is told to all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "net/handshake.h"
#include "twin/hccl/rootinfo.h"
#include "twin/hccl/settings.h"
#include "twin/hccl/sockets.h"

namespace twin {

// A member as it introduces itself.
struct MemberInfo {
  uint32_t rank = 0;
  std::string host;     // HostIdentity()
  std::string process;  // ProcessIdentity()
  std::string memory;   // members whose texts are equal share memory
  int64_t process_id = 0;
  int32_t device = 0;
  std::string unix_name;  // where it accepts members that share memory with it,
  std::string address;    // and the others
  uint16_t port = 0;

  std::string Describe() const;
};

struct Hello {
  uint32_t size = 0;
  std::string agreement;  // what all members must have given alike, as text for people
  double timeout_s = 0;   // the rendezvous waits as long as its first member would
  MemberInfo member;
};

Frame EncodeHello(const Hello& hello);
Hello DecodeHello(const Frame& frame);
Frame EncodeTable(const std::vector<MemberInfo>& members);
std::vector<MemberInfo> DecodeTable(const Frame& frame);

// What the members of a communicator prove to the rendezvous, and to each other.
net::Key RendezvousKey(const RootInfo& root);
net::Key MemberKey(const std::string& secret);

// Opens a listener and serves it from a thread of its own until the communicator is complete or has failed.
RootInfo StartRendezvous(const Settings& settings);

// A member's side. Each step throws HcclFailure with the server's verdict where there is one.
class RendezvousClient {
 public:
  RendezvousClient(const RootInfo& root, double timeout_s);

  // Blocks until all members have come; the table is in the order of ranks.
  std::vector<MemberInfo> Join(const Hello& hello);
  // Says that this member is connected to all others, and blocks until all are.
  void Complete();
  // Tells the others why this member will not come, so that they need not wait for the time-out.
  void Withdraw(const std::string& why) noexcept;
  // Throws the verdict if one has come while the member was busy elsewhere.
  void Check();

  // Readable when there is something to Check.
  int socket() const { return socket_.get(); }

 private:
  void Reach(const RootInfo& root);
  Frame Expect(FrameType type);
  void RefuseIfRejected(const Frame& frame) const;

  double timeout_s_;
  std::string where_;
  Fd socket_;
  FrameBuffer input_;
};

}  // namespace twin
