// The full mesh. A member connects to every lower rank and accepts every higher one, all concurrently, so no
// order of ranks can deadlock and no unauthenticated client can hold anyone up. Members of one process need
// no connection.
#include "twin/hccl/membership/mesh.h"

#include "twin/acl/internal.h"

namespace twin {
namespace {

constexpr double kMeshSendSeconds = 10;
constexpr double kVerdictSeconds = 1;

}  // namespace

Mesh::Mesh(Group& group, const std::vector<MemberInfo>& table, const MemberListeners& listeners,
           RendezvousClient& rendezvous)
    : group_(group),
      membership_(*group.membership),
      table_(table),
      self_(table[group.rank]),
      listeners_(listeners),
      rendezvous_(rendezvous),
      unix_door_(listeners.unix_socket.get(), MemberKey(membership_.secret)),
      tcp_door_(listeners.tcp_socket.get(), MemberKey(membership_.secret)) {}

bool Mesh::SameProcess(const MemberInfo& member) const {
  return member.host == self_.host && member.process == self_.process;
}

void Mesh::Build(Deadline deadline) {
  DescribePeers();
  const size_t board_bytes = BoardBytes(group_.size);
  if (SameProcess(table_[leader_])) {
    membership_.own_board = LocalBoard(membership_.id, board_bytes);
    group_.board = membership_.own_board->mapping->base();
  }
  ConnectToLower(deadline);
  AwaitAll(deadline);
  ReadReplies(deadline);
}

void Mesh::DescribePeers() {
  membership_.control.resize(table_.size());
  membership_.data.resize(table_.size());
  leader_ = group_.rank;
  group_.host_members = 0;
  for (const MemberInfo& member : table_) {
    Peer& peer = group_.peers[member.rank];
    peer.rank = member.rank;
    peer.host = member.host;
    peer.process_id = member.process_id;
    peer.device = member.device;
    peer.same_host = SharesMemory(member);
    peer.same_process = SameProcess(member);
    group_.one_host = group_.one_host && peer.same_host;
    group_.host_members += peer.same_host;
    if (peer.same_host && member.rank < leader_) leader_ = member.rank;
    if (member.rank > group_.rank && !peer.same_process) expected_ += peer.same_host ? 1 : 2;
  }
}

void Mesh::Introduce(int socket, Channel channel, bool with_files) const {
  const Arena arena = DeviceArena(group_.device);
  FrameWriter writer;
  writer.Put(membership_.id).Put(group_.rank).Put(static_cast<uint32_t>(channel)).Put(uint64_t{arena.bytes});
  std::vector<int> files;
  if (with_files) {
    if (arena.fd < 0) {
      throw HcclFailure(HCCL_E_MEMORY, "the memory file of device " + std::to_string(group_.device) +
                                           " could not be created; aclrtMalloc reports why");
    }
    files.push_back(arena.fd);
    if (leader_ == group_.rank) files.push_back(membership_.own_board->file.get());
  }
  SendFrame(socket, writer.Take(FrameType::kIntroduction), After(kMeshSendSeconds), files);
}

void Mesh::ConnectToLower(Deadline deadline) {
  for (const MemberInfo& member : table_) {
    if (member.rank >= group_.rank || SameProcess(member)) continue;
    for (const Channel channel : {Channel::kControl, Channel::kData}) {
      if (channel == Channel::kData && SharesMemory(member)) continue;
      Outgoing& outgoing = outgoing_.emplace_back();
      outgoing.rank = member.rank;
      outgoing.channel = channel;
      Connect(outgoing, deadline);
    }
  }
}

void Mesh::Connect(Outgoing& outgoing, Deadline deadline) {
  const MemberInfo& member = table_[outgoing.rank];
  const bool over_unix = SharesMemory(member);
  outgoing.socket = over_unix ? ConnectUnix(member.unix_name) : ConnectTcp(member.address, member.port, deadline);
  if (over_unix && !net::PeerIsSameUser(outgoing.socket.get())) {
    throw HcclFailure(HCCL_E_REMOTE, member.Describe() + " is a process of another user");
  }
  outgoing.handshake.emplace(outgoing.socket.get(), net::Handshake::Side::kClient, MemberKey(membership_.secret));
}

void Mesh::AwaitAll(Deadline deadline) {
  while (expected_ > 0 || !outgoing_.empty()) {
    std::vector<int> awaited{unix_door_.descriptor(), tcp_door_.descriptor(), rendezvous_.socket()};
    for (const Outgoing& outgoing : outgoing_) awaited.push_back(outgoing.socket.get());
    if (!WaitReadable(awaited, deadline)) {
      throw HcclFailure(HCCL_E_TIMEOUT, std::to_string(expected_) + " connections from higher ranks never arrived, " +
                                            std::to_string(outgoing_.size()) + " to lower ranks were never answered");
    }
    rendezvous_.Check();
    AdvanceOutgoing(deadline);
    for (Fd& socket : unix_door_.Admit()) Welcome(std::move(socket), false);
    for (Fd& socket : tcp_door_.Admit()) Welcome(std::move(socket), true);
  }
}

void Mesh::AdvanceOutgoing(Deadline deadline) {
  for (auto each = outgoing_.begin(); each != outgoing_.end();) {
    const net::Handshake::State state = each->handshake->Advance();
    if (state == net::Handshake::State::kRefused) {
      throw HcclFailure(HCCL_E_REMOTE, "the listener for " + table_[each->rank].Describe() +
                                           " does not know this communicator's secret");
    }
    if (state == net::Handshake::State::kGone) Reconnect(*each, deadline);
    if (state != net::Handshake::State::kProven) {
      ++each;
      continue;
    }
    Introduce(each->socket.get(), each->channel, SharesMemory(table_[each->rank]));
    Keep(each->rank, each->channel, std::move(each->socket));
    each = outgoing_.erase(each);
  }
}

// The other member's listener may be overloaded, or the member has died: then the rendezvous reports it.
void Mesh::Reconnect(Outgoing& outgoing, Deadline deadline) {
  try {
    Connect(outgoing, deadline);
  } catch (const HcclFailure&) {
    if (WaitReadable({rendezvous_.socket()}, After(kVerdictSeconds))) rendezvous_.Check();
    throw;
  }
}

// A connection from a higher rank, which has proven that it knows the secret.
void Mesh::Welcome(Fd socket, bool over_tcp) {
  FrameBuffer input;
  try {
    const Frame frame = ReceiveFrame(socket.get(), input, After(kMeshSendSeconds), "a new connection");
    FrameReader introduction(frame);
    if (frame.type != FrameType::kIntroduction || introduction.GetText() != membership_.id) return;
    const auto rank = introduction.Get<uint32_t>();
    const auto channel = static_cast<Channel>(introduction.Get<uint32_t>());
    if (rank >= table_.size()) return;
    if (over_tcp) WatchTcp(socket.get());
    TakeFiles(rank, introduction, input.TakeFiles());
    if (!over_tcp) Introduce(socket.get(), channel, true);
    Keep(rank, channel, std::move(socket));
    --expected_;
  } catch (const HcclFailure& failure) {
    // A member that died: the rendezvous reports it.
    if (failure.code() == HCCL_E_MEMORY) throw;
  }
}

void Mesh::ReadReplies(Deadline deadline) {
  for (const MemberInfo& member : table_) {
    if (member.rank >= group_.rank || SameProcess(member) || !SharesMemory(member)) continue;
    const int socket = membership_.control[member.rank].get();
    FrameBuffer input;
    const Frame frame = ReceiveFrame(socket, input, deadline, member.Describe());
    FrameReader introduction(frame);
    introduction.GetText();
    introduction.Get<uint32_t>();
    introduction.Get<uint32_t>();
    TakeFiles(member.rank, introduction, input.TakeFiles());
  }
}

void Mesh::TakeFiles(uint32_t rank, FrameReader& introduction, std::vector<Fd> files) {
  const auto arena_bytes = introduction.Get<uint64_t>();
  if (!files.empty()) {
    membership_.arenas.push_back(MapOnce(files[0], arena_bytes));
    group_.peers[rank].arena = membership_.arenas.back()->base();
    group_.peers[rank].arena_bytes = arena_bytes;
  }
  if (files.size() > 1 && rank == leader_) {
    membership_.received_board = MapOnce(files[1], BoardBytes(group_.size));
    group_.board = membership_.received_board->base();
  }
}

void Mesh::Keep(uint32_t rank, Channel channel, Fd socket) {
  MakeNonBlocking(socket.get());
  if (channel == Channel::kData) group_.peers[rank].data_socket = socket.get();
  (channel == Channel::kData ? membership_.data : membership_.control)[rank] = std::move(socket);
}

}  // namespace twin
