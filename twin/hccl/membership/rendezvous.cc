// The rendezvous as a member sees it, and the encoding of what member and server exchange.
#include "twin/hccl/membership/rendezvous.h"

#include <unistd.h>

namespace twin {
namespace {

// The server's verdict names who is missing; wait a little longer than the server does, so that the verdict
// arrives first.
constexpr double kVerdictGraceSeconds = 3;
constexpr useconds_t kKnockAgainMicroseconds = 20'000;

void PutMember(FrameWriter& writer, const MemberInfo& member) {
  writer.Put(member.rank).Put(member.host).Put(member.process).Put(member.memory).Put(member.process_id);
  writer.Put(member.device).Put(member.unix_name).Put(member.address).Put(member.port);
}

MemberInfo GetMember(FrameReader& reader) {
  MemberInfo member;
  member.rank = reader.Get<uint32_t>();
  member.host = reader.GetText();
  member.process = reader.GetText();
  member.memory = reader.GetText();
  member.process_id = reader.Get<int64_t>();
  member.device = reader.Get<int32_t>();
  member.unix_name = reader.GetText();
  member.address = reader.GetText();
  member.port = reader.Get<uint16_t>();
  return member;
}

}  // namespace

net::Key RendezvousKey(const RootInfo& root) { return {root.secret, "hccl rendezvous"}; }

net::Key MemberKey(const std::string& secret) { return {secret, "hccl member"}; }

std::string MemberInfo::Describe() const {
  return "rank " + std::to_string(rank) + " (host " + host.substr(0, host.find('/')) + ", process " +
         std::to_string(process_id) + ", device " + std::to_string(device) + ")";
}

Frame EncodeHello(const Hello& hello) {
  FrameWriter writer;
  writer.Put(hello.size).Put(hello.agreement).Put(hello.timeout_s);
  PutMember(writer, hello.member);
  return writer.Take(FrameType::kHello);
}

Hello DecodeHello(const Frame& frame) {
  FrameReader reader(frame);
  Hello hello;
  hello.size = reader.Get<uint32_t>();
  hello.agreement = reader.GetText();
  hello.timeout_s = reader.Get<double>();
  hello.member = GetMember(reader);
  return hello;
}

Frame EncodeTable(const std::vector<MemberInfo>& members) {
  FrameWriter writer;
  writer.Put(static_cast<uint32_t>(members.size()));
  for (const MemberInfo& member : members) PutMember(writer, member);
  return writer.Take(FrameType::kTable);
}

std::vector<MemberInfo> DecodeTable(const Frame& frame) {
  FrameReader reader(frame);
  std::vector<MemberInfo> members;
  for (uint32_t left = reader.Get<uint32_t>(); left > 0; --left) members.push_back(GetMember(reader));
  return members;
}

RendezvousClient::RendezvousClient(const RootInfo& root, double timeout_s)
    : timeout_s_(timeout_s),
      where_("the rendezvous at " + root.address + " port " + std::to_string(root.port) + " (host " +
             root.host.substr(0, root.host.find('/')) + ")") {
  try {
    Reach(root);
  } catch (const HcclFailure& failure) {
    throw HcclFailure(failure.code(), where_ + " cannot be reached: " + failure.what() +
                                          "; the root info was already used, or the root's process has ended, or "
                                          "HCCL_IF_IP and HCCL_SOCKET_IFNAME name the wrong interface there");
  }
}

// A rendezvous flooded by unauthenticated clients may reject a member too: the member retries.
void RendezvousClient::Reach(const RootInfo& root) {
  const Deadline deadline = After(timeout_s_);
  net::Handshake::State state = net::Handshake::State::kGone;
  while (state == net::Handshake::State::kGone) {
    socket_ = ConnectTcp(root.address, root.port, deadline);
    state = net::ProveAsClient(socket_.get(), RendezvousKey(root), deadline);
    if (state == net::Handshake::State::kGone && After(0) < deadline) usleep(kKnockAgainMicroseconds);
    if (After(0) >= deadline) break;
  }
  if (state == net::Handshake::State::kRefused) {
    throw HcclFailure(HCCL_E_PARA, "the listener there does not know this root info");
  }
  if (state != net::Handshake::State::kProven) {
    throw HcclFailure(HCCL_E_TIMEOUT, "the listener there did not answer within the connect timeout");
  }
}

std::vector<MemberInfo> RendezvousClient::Join(const Hello& hello) {
  SendFrame(socket_.get(), EncodeHello(hello), After(timeout_s_));
  return DecodeTable(Expect(FrameType::kTable));
}

void RendezvousClient::Complete() {
  SendFrame(socket_.get(), {FrameType::kReady, ""}, After(timeout_s_));
  Expect(FrameType::kGo);
}

void RendezvousClient::Withdraw(const std::string& why) noexcept {
  try {
    SendFrame(socket_.get(), FrameWriter().Put(why).Take(FrameType::kCannotJoin), After(1));
  } catch (const std::exception&) {
    // The server learns of it anyway when the connection closes.
  }
}

void RendezvousClient::Check() {
  const bool open = input_.Fill(socket_.get());
  if (const std::optional<Frame> frame = input_.Next()) RefuseIfRejected(*frame);
  if (!open) throw HcclFailure(HCCL_E_REMOTE, where_ + " ended before the communicator was complete");
}

Frame RendezvousClient::Expect(FrameType type) {
  Frame frame = ReceiveFrame(socket_.get(), input_, After(timeout_s_ + kVerdictGraceSeconds), where_);
  RefuseIfRejected(frame);
  if (frame.type != type) throw HcclFailure(HCCL_E_INTERNAL, where_ + " sent a message out of order");
  return frame;
}

void RendezvousClient::RefuseIfRejected(const Frame& frame) const {
  if (frame.type != FrameType::kRejected) return;
  FrameReader reader(frame);
  const auto code = static_cast<HcclResult>(reader.Get<uint32_t>());
  throw HcclFailure(code, reader.GetText());
}

}  // namespace twin
