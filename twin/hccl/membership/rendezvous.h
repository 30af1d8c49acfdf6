// How the members of one communicator find each other: a server in the root's process, named by the root
// info, to which every member connects. Clients that cannot prove knowledge of the root info's secret are
// ignored. The server checks that the members' arguments agree, distributes the table of members, and
// releases them only when all are connected to each other; a failure of one is reported to all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "net/handshake.h"
#include "twin/hccl/membership/rootinfo.h"
#include "twin/hccl/settings.h"
#include "twin/hccl/wire/sockets.h"

namespace twin {

// A member as it introduces itself.
struct MemberInfo {
  uint32_t rank = 0;
  std::string host;     // HostIdentity()
  std::string process;  // ProcessIdentity()
  std::string memory;   // members with equal strings share memory
  int64_t process_id = 0;
  int32_t device = 0;
  std::string unix_name;  // where it accepts members that share memory with it
  std::string address;    // where it accepts the others
  uint16_t port = 0;

  std::string Describe() const;
};

struct Hello {
  uint32_t size = 0;
  std::string agreement;  // what all members must agree on, in readable form
  double timeout_s = 0;   // the rendezvous uses the timeout of its first member
  MemberInfo member;
};

Frame EncodeHello(const Hello& hello);
Hello DecodeHello(const Frame& frame);
Frame EncodeTable(const std::vector<MemberInfo>& members);
std::vector<MemberInfo> DecodeTable(const Frame& frame);

// The keys that members prove to the rendezvous, and to each other.
net::Key RendezvousKey(const RootInfo& root);
net::Key MemberKey(const std::string& secret);

// Opens a listener and serves it from its own thread until the communicator is complete or has failed.
RootInfo StartRendezvous(const Settings& settings);

// A member's side. Each step throws HcclFailure, with the server's verdict if there is one.
class RendezvousClient {
 public:
  RendezvousClient(const RootInfo& root, double timeout_s);

  // Blocks until all members have arrived; the table is in rank order.
  std::vector<MemberInfo> Join(const Hello& hello);
  // Reports that this member is connected to all others, and blocks until all are.
  void Complete();
  // Tells the others why this member will not join, so that they need not wait for the timeout.
  void Withdraw(const std::string& why) noexcept;
  // Throws the verdict if one arrived while the member was busy elsewhere.
  void Check();

  // Readable when Check has something to read.
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
