// The full mesh. A member connects to every lower rank, then accepts every higher one: connecting never waits
// for the other side's accept, so no order of ranks can lock up. Members of one process need no connection.
#include "twin/hccl/mesh.h"

#include "twin/acl/internal.h"

namespace twin {
namespace {

constexpr double kStrangerSeconds = 10;

}  // namespace

Mesh::Mesh(Group& group, const std::vector<MemberInfo>& table, const MemberListeners& listeners,
           RendezvousClient& rendezvous)
    : group_(group),
      membership_(*group.membership),
      table_(table),
      self_(table[group.rank]),
      listeners_(listeners),
      rendezvous_(rendezvous) {}

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
  AcceptHigher(deadline);
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
    files.push_back(arena.fd);
    if (leader_ == group_.rank) files.push_back(membership_.own_board->file.get());
  }
  SendFrame(socket, writer.Take(FrameType::kIntroduction), After(kStrangerSeconds), files);
}

void Mesh::ConnectToLower(Deadline deadline) {
  for (const MemberInfo& member : table_) {
    if (member.rank >= group_.rank || SameProcess(member)) continue;
    if (SharesMemory(member)) {
      Fd socket = ConnectUnix(member.unix_name);
      Introduce(socket.get(), Channel::kControl, true);
      Keep(member.rank, Channel::kControl, std::move(socket));
      continue;
    }
    for (const Channel channel : {Channel::kControl, Channel::kData}) {
      Fd socket = ConnectTcp(member.address, member.port, deadline);
      Introduce(socket.get(), channel, false);
      Keep(member.rank, channel, std::move(socket));
    }
  }
}

void Mesh::AcceptHigher(Deadline deadline) {
  while (expected_ > 0) {
    const std::vector<int> awaited{listeners_.unix_socket.get(), listeners_.tcp_socket.get(),
                                   rendezvous_.socket()};
    if (!WaitReadable(awaited, deadline)) {
      throw HcclFailure(HCCL_E_TIMEOUT,
                        std::to_string(expected_) + " connections of higher ranks never came");
    }
    rendezvous_.Check();
    AcceptOne(listeners_.unix_socket, false);
    AcceptOne(listeners_.tcp_socket, true);
  }
}

void Mesh::AcceptOne(const Fd& listener, bool over_tcp) {
  Fd socket = Accept(listener);
  if (!socket.valid()) return;
  FrameBuffer input;
  try {
    const Frame frame = ReceiveFrame(socket.get(), input, After(kStrangerSeconds), "a new connection");
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
    // A stranger that found the port, or a member that died: the rendezvous knows the difference.
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
