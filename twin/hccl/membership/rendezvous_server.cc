// The rendezvous server: one thread, one communicator. Its state is private; members only see messages.
#include <map>
#include <memory>

#include "net/door.h"
#include "net/secret.h"
#include "twin/hccl/membership/background.h"
#include "twin/hccl/membership/identity.h"
#include "twin/hccl/membership/rendezvous.h"
#include "twin/hccl/wire/interfaces.h"

namespace twin {
namespace {

constexpr double kAnswerSendSeconds = 10;

struct Connection {
  Fd socket;
  FrameBuffer input;
  std::optional<MemberInfo> member;  // once it has said hello
  bool ready = false;
  bool open = true;
};

class Rendezvous {
 public:
  Rendezvous(const RootInfo& root, Fd listener)
      : listener_(std::move(listener)), door_(listener_.get(), RendezvousKey(root)) {}

  void Run() {
    while (!complete_ && WaitForSomething()) {
      Admit();
      for (const std::unique_ptr<Connection>& connection : connections_) Serve(*connection);
      std::erase_if(connections_, [](const auto& connection) { return !connection->open; });
    }
  }

 private:
  // False once the time is over and nobody is left to be told why.
  bool WaitForSomething() {
    std::vector<int> sockets{door_.descriptor()};
    for (const auto& connection : connections_) sockets.push_back(connection->socket.get());
    if (!started_) {  // a root info may stay unused for any length of time
      while (!WaitReadable(sockets, After(600))) continue;
      return true;
    }
    if (WaitReadable(sockets, deadline_)) return true;
    if (verdict_) return false;
    Reject(HCCL_E_TIMEOUT, WhoIsMissing());
    return true;
  }

  void Admit() {
    for (Fd& socket : door_.Admit()) {
      MakeNonBlocking(socket.get());
      WatchTcp(socket.get());
      connections_.push_back(std::make_unique<Connection>());
      connections_.back()->socket = std::move(socket);
    }
  }

  void Serve(Connection& connection) {
    try {
      const bool open = connection.input.Fill(connection.socket.get());
      while (const std::optional<Frame> frame = connection.input.Next()) Handle(connection, *frame);
      if (!open) Lost(connection);
    } catch (const HcclFailure&) {  // a member that can no longer be reached
      Lost(connection);
    }
  }

  void Handle(Connection& connection, const Frame& frame) {
    if (!connection.open) return;
    if (frame.type == FrameType::kHello) {
      Greet(connection, DecodeHello(frame));
    } else if (frame.type == FrameType::kReady && connection.member) {
      connection.ready = true;
      FinishIfAllReady();
    } else if (frame.type == FrameType::kCannotJoin && connection.member) {
      const std::string who = connection.member->Describe();
      connection.open = false;
      Reject(HCCL_E_REMOTE, who + " could not join: " + FrameReader(frame).GetText());
    }
  }

  void Greet(Connection& connection, const Hello& hello) {
    if (verdict_) {
      Send(connection, *verdict_);
      connection.open = false;
      return;
    }
    if (!started_) Start(hello);
    const std::string objection = Objection(hello);
    connection.member = hello.member;
    if (!objection.empty()) return Reject(HCCL_E_PARA, objection);
    members_[hello.member.rank] = &connection;
    if (members_.size() == first_.size) SendTable();
  }

  void Start(const Hello& hello) {
    started_ = true;
    first_ = hello;
    deadline_ = After(hello.timeout_s);
  }

  std::string Objection(const Hello& hello) const {
    const MemberInfo& member = hello.member;
    if (hello.size != first_.size) {
      return member.Describe() + " joins with nRanks " + std::to_string(hello.size) + ", but " +
             first_.member.Describe() + " with nRanks " + std::to_string(first_.size) +
             "; all must pass the same value";
    }
    if (member.rank >= hello.size) {
      return member.Describe() + " joins a communicator of nRanks " + std::to_string(hello.size) + "; ranks are 0 to " +
             std::to_string(hello.size - 1);
    }
    if (const auto other = members_.find(member.rank); other != members_.end()) {
      return "two members joined as the same rank: " + other->second->member->Describe() + " and " + member.Describe();
    }
    if (hello.agreement != first_.agreement) {
      return member.Describe() + " joins with " + hello.agreement + ", but " + first_.member.Describe() + " with " +
             first_.agreement + "; all must pass the same value";
    }
    return "";
  }

  void SendTable() {
    std::vector<MemberInfo> table;
    for (const auto& [rank, connection] : members_) table.push_back(*connection->member);
    deadline_ = After(first_.timeout_s);
    SendToAll(EncodeTable(table));
  }

  void FinishIfAllReady() {
    if (members_.size() < first_.size) return;
    for (const auto& [rank, connection] : members_) {
      if (!connection->ready) return;
    }
    SendToAll({FrameType::kGo, ""});
    complete_ = true;
  }

  void Lost(Connection& connection) {
    if (!connection.open || complete_) return;
    connection.open = false;
    if (!connection.member || verdict_) return;
    Reject(HCCL_E_REMOTE, connection.member->Describe() + " disconnected before the communicator was complete");
  }

  // Ends the attempt for all who have joined; whoever arrives until the deadline is told the same.
  void Reject(HcclResult code, const std::string& text) {
    verdict_ = Rejection(code, text);
    deadline_ = After(first_.timeout_s);
    SendToAll(*verdict_);
    for (const auto& connection : connections_) connection->open = connection->open && !connection->member;
    members_.clear();
  }

  // Members in this process last: once they know, the process may exit, and this thread with it.
  void SendToAll(const Frame& frame) {
    for (const bool here : {false, true}) {
      for (const auto& connection : connections_) {
        if (!connection->open || !connection->member) continue;
        if ((connection->member->process == process_) == here) Send(*connection, frame);
      }
    }
  }

  static Frame Rejection(HcclResult code, const std::string& text) {
    return FrameWriter().Put(static_cast<uint32_t>(code)).Put(text).Take(FrameType::kRejected);
  }

  std::string WhoIsMissing() const {
    std::string missing;
    std::string there;
    for (uint32_t rank = 0; rank < first_.size; ++rank) {
      const auto found = members_.find(rank);
      const bool done = found != members_.end() && (members_.size() < first_.size || found->second->ready);
      std::string& list = done ? there : missing;
      list += (list.empty() ? "" : ", ") + (done ? found->second->member->Describe() : std::to_string(rank));
    }
    const std::string what = members_.size() < first_.size ? "never joined" : "did not connect to the others";
    return "of " + std::to_string(first_.size) + " ranks these " + what + " within " +
           std::to_string(static_cast<int>(first_.timeout_s)) + " s (HCCL_CONNECT_TIMEOUT): " + missing +
           "; present: " + there;
  }

  static void Send(Connection& connection, const Frame& frame) {
    try {
      SendFrame(connection.socket.get(), frame, After(kAnswerSendSeconds));
    } catch (const HcclFailure&) {
      // The other end is gone; the next poll of the connection finds that out.
    }
  }

  const std::string process_ = ProcessIdentity();
  const Fd listener_;
  net::Door door_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::map<uint32_t, Connection*> members_;
  bool started_ = false;
  Hello first_;  // from the first member; the others must agree with it
  Deadline deadline_;
  std::optional<Frame> verdict_;
  bool complete_ = false;
};

}  // namespace

RootInfo StartRendezvous(const Settings& settings) {
  RootInfo info;
  info.id = RandomId();
  info.secret = net::NewSecret();
  info.host = HostIdentity();
  info.address = ChooseAddress(settings, ListInterfaces());
  Fd listener = ListenTcp(info.address, settings.base_port, &info.port);
  auto server = std::make_shared<Rendezvous>(info, std::move(listener));
  RunInBackground([server] {
    try {
      server->Run();
    } catch (const std::exception& failure) {  // its connections close, which tells every member
      SetRecentError(std::string("a rendezvous ended: ") + failure.what());
    }
  });
  return info;
}

}  // namespace twin
