// State of a group's data path: buffer addresses, links to peers, sequence numbers.
#include "twin/hccl/data_path/data_path.h"

#include <algorithm>

#include "twin/acl/internal.h"
#include "twin/hccl/failure.h"

namespace twin {

DataPath::DataPath(Group& group)
    : group_(group), shared_(group.board, group.size), links_(group.size), sends_(group.size), receives_(group.size) {
  for (const Peer& peer : group.peers) {
    if (peer.rank == group.rank) continue;
    one_process_ = one_process_ && peer.same_process;
    maps_all_arenas_ = maps_all_arenas_ && (peer.same_process || peer.arena != nullptr);
    if (!peer.same_host) AddRemoteLink(peer);
  }
}

void DataPath::AddRemoteLink(const Peer& peer) {
  if (!mirror_memory_) {
    mirror_memory_ = std::make_unique<MirrorMemory>(BoardBytes(group_.size));
    mirror_ = Board(mirror_memory_->memory(), group_.size);
  }
  const uint32_t from = peer.rank;
  auto link =
      std::make_unique<TcpLink>(peer.data_socket, Describe(peer),
                                [this, from](FrameKind kind, uint64_t sequence, std::span<const std::byte> content) {
                                  OnControl(from, kind, sequence, content);
                                });
  remote_links_.emplace_back(from, link.get());
  links_[from] = std::move(link);
}

void DataPath::OnControl(uint32_t from, FrameKind kind, uint64_t sequence, std::span<const std::byte> content) {
  if (kind == FrameKind::kPost) return UnpackPost(mirror_, from, group_.size, sequence, content);
  if (kind == FrameKind::kSendOffer)
    return UnpackOffer(mirror_.pair(from, group_.rank).send[sequence % 2], sequence, content);
  UnpackOffer(mirror_.pair(group_.rank, from).receive[sequence % 2], sequence, content);
}

DataPath::~DataPath() = default;

Link& DataPath::link(uint32_t rank) {
  if (!links_[rank]) links_[rank] = std::make_unique<RingLink>(shared_, group_.rank, rank);
  return *links_[rank];
}

std::byte* DataPath::Reach(uint32_t rank, const BufferRef& buffer) const {
  const Peer& peer = group_.peers[rank];
  if (peer.same_process) return reinterpret_cast<std::byte*>(buffer.address);
  if (buffer.arena_offset == kNowhere || peer.arena == nullptr) return nullptr;
  return peer.arena + buffer.arena_offset;
}

BufferRef DataPath::Publish(const void* buffer, size_t bytes) const {
  BufferRef ref{reinterpret_cast<uint64_t>(buffer), kNowhere};
  if (bytes > 0 && !one_process_) ref.arena_offset = ArenaOffset(group_.device, buffer, bytes);
  return ref;
}

bool DataPath::ProgressRemote() {
  bool moved = false;
  for (const auto& [rank, link] : remote_links_) moved |= link->Progress();
  return moved;
}

std::vector<uint32_t> DataPath::Unflushed() const {
  std::vector<uint32_t> ranks;
  for (const auto& [rank, link] : remote_links_)
    if (!link->flushed()) ranks.push_back(rank);
  return ranks;
}

void DataPath::SendPost(uint64_t sequence) {
  if (remote_links_.empty()) return;
  const std::vector<std::byte> content = PackPost(shared_, group_.rank, group_.size, sequence);
  for (const auto& [rank, link] : remote_links_) link->SendControl(FrameKind::kPost, sequence, content);
}

void DataPath::SendOffer(uint32_t peer, bool is_send, uint64_t sequence) {
  if (group_.peers[peer].same_host) return;
  PairArea& pair = is_send ? mirror_.pair(group_.rank, peer) : mirror_.pair(peer, group_.rank);
  const Offer& offer = pair.offer_of(is_send, sequence).offer;
  static_cast<TcpLink&>(link(peer))
      .SendControl(is_send ? FrameKind::kSendOffer : FrameKind::kReceiveOffer, sequence,
                   std::as_bytes(std::span(&offer, 1)));
}

void DataPath::Number(Operation& operation) {
  if (!IsPointToPoint(operation.kind)) operation.sequence = ++collectives_;
  for (Message& message : operation.messages) message.sequence = ++(message.is_send ? sends_ : receives_)[message.peer];
}

void DataPath::Withdraw(const Operation& operation) {
  if (!IsPointToPoint(operation.kind)) --collectives_;
  for (const Message& message : operation.messages) --(message.is_send ? sends_ : receives_)[message.peer];
}

void DataPath::Begin(const Operation& operation) {
  const Operation* expected = nullptr;
  if (running_.compare_exchange_strong(expected, &operation)) return;
  throw HcclFailure(HCCL_E_PARA, DescribeOperation(operation, group_.name) +
                                     " began while another operation of the group was running on another stream; "
                                     "operations of one communicator must be serialised");
}

void DataPath::End(const Operation& operation) {
  const Operation* expected = &operation;
  running_.compare_exchange_strong(expected, nullptr);
}

}  // namespace twin
