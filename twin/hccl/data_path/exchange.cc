// One loop over all peers: push what fits, take what has arrived, pause when nothing moved.
#include "twin/hccl/data_path/exchange.h"

#include <algorithm>
#include <cstring>

#include "twin/hccl/data_path/reduce.h"

namespace twin {
namespace {

constexpr size_t kExchangeChunkBytes = 64 * 1024;  // a fraction of a ring, so that both ends stay busy

}  // namespace

Exchange::Exchange(DataPath& path, const Operation& operation)
    : path_(path), operation_(operation), sends_(path.group().size), receives_(path.group().size) {}

void Exchange::Send(uint32_t peer, const void* data, size_t bytes, bool follow_reduction) {
  if (bytes == 0) return;
  auto* start = const_cast<std::byte*>(static_cast<const std::byte*>(data));  // only ever read
  sends_[peer].transfers.push_back({start, bytes, 0, follow_reduction});
}

void Exchange::Receive(uint32_t peer, void* data, size_t bytes) {
  if (bytes == 0) return;
  receives_[peer].transfers.push_back({static_cast<std::byte*>(data), bytes, 0, false});
}

void Exchange::ReduceFromAll(const void* own, void* out, size_t bytes) {
  own_ = static_cast<const std::byte*>(own);
  reduced_ = static_cast<std::byte*>(out);
  reduction_bytes_ = bytes;
}

bool Exchange::StepSend(uint32_t peer) {
  Queue& queue = sends_[peer];
  if (queue.finished()) return false;
  Transfer& transfer = queue.transfers[queue.next];
  const size_t ready = transfer.follow_reduction ? reduction_done_ : transfer.bytes;
  Link& link = path_.link(peer);
  const std::span<std::byte> room = link.Reserve();
  size_t n = std::min({room.size(), ready - transfer.done, kExchangeChunkBytes});
  // Chunks end at element boundaries, so that the receiver can reduce them in place.
  if (n < ready - transfer.done) n -= n % TypeBytes(operation_.type);
  if (n == 0) return false;
  std::memcpy(room.data(), transfer.data + transfer.done, n);
  link.Push(n);
  transfer.done += n;
  if (transfer.done == transfer.bytes) {
    link.EndOutgoing();
    ++queue.next;
  }
  return true;
}

bool Exchange::StepReceive(uint32_t peer) {
  Queue& queue = receives_[peer];
  if (queue.finished() || reduction_done_ < reduction_bytes_) return false;
  Transfer& transfer = queue.transfers[queue.next];
  Link& link = path_.link(peer);
  const std::span<const std::byte> come = link.Peek();
  const size_t n = std::min({come.size(), transfer.bytes - transfer.done, kExchangeChunkBytes});
  if (n == 0) return false;
  std::memcpy(transfer.data + transfer.done, come.data(), n);
  link.Pop(n);
  transfer.done += n;
  if (transfer.done == transfer.bytes) {
    link.EndIncoming();
    ++queue.next;
  }
  return true;
}

bool Exchange::StepReduction() {
  if (reduction_done_ == reduction_bytes_) return false;
  const Group& group = path_.group();
  const size_t element = TypeBytes(operation_.type);
  std::vector<const void*> sources(group.size);
  size_t n = std::min(reduction_bytes_ - reduction_done_, kExchangeChunkBytes);
  for (uint32_t rank = 0; rank < group.size; ++rank) {
    if (rank == group.rank) {
      sources[rank] = own_ + reduction_done_;
      continue;
    }
    const std::span<const std::byte> come = path_.link(rank).Peek();
    n = std::min(n, come.size() / element * element);
    sources[rank] = come.data();
  }
  if (n == 0) return false;
  Reduce(operation_.type, operation_.reduction, reduced_ + reduction_done_, sources.data(), group.size, n / element);
  reduction_done_ += n;
  for (uint32_t rank = 0; rank < group.size; ++rank) {
    if (rank == group.rank) continue;
    path_.link(rank).Pop(n);
    if (reduction_done_ == reduction_bytes_) path_.link(rank).EndIncoming();
  }
  return true;
}

bool Exchange::finished() const {
  if (reduction_done_ < reduction_bytes_) return false;
  for (uint32_t peer = 0; peer < sends_.size(); ++peer)
    if (!sends_[peer].finished() || !receives_[peer].finished()) return false;
  return true;
}

std::vector<uint32_t> Exchange::Unfinished() const {
  std::vector<uint32_t> ranks;
  for (uint32_t peer = 0; peer < sends_.size(); ++peer) {
    const bool reducing = reduction_done_ < reduction_bytes_ && peer != path_.group().rank;
    if (reducing || !sends_[peer].finished() || !receives_[peer].finished()) ranks.push_back(peer);
  }
  return ranks;
}

bool Exchange::Step() {
  bool moved = path_.ProgressRemote();
  moved |= StepReduction();
  for (uint32_t step = 1; step < sends_.size(); ++step) {
    const uint32_t peer = (path_.group().rank + step) % sends_.size();
    moved |= StepSend(peer);
    moved |= StepReceive(peer);
  }
  return moved;
}

void Exchange::Run() {
  Waiter waiter(path_, operation_);
  while (!finished()) {
    if (Step()) {
      waiter.Restart();
    } else {
      waiter.Pause([this] { return Unfinished(); });
    }
  }
}

}  // namespace twin
