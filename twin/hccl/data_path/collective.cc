// Three paths: small messages travel inside the posts, so that one synchronisation is enough; reachable
// buffers are read in place; everything else goes over links. All members decide from the same posts, so all
// choose the same path.
#include "twin/hccl/data_path/collective.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "twin/hccl/data_path/direct.h"
#include "twin/hccl/data_path/linked.h"
#include "twin/hccl/data_path/match.h"
#include "twin/hccl/data_path/waiter.h"

namespace twin {
namespace {

bool PeersWriteOutput(const Operation& operation, uint32_t rank) {
  return operation.kind == OperationKind::kAllReduce ||
         (operation.kind == OperationKind::kReduce && rank == operation.root);
}

void PostCollective(DataPath& path, const Operation& operation) {
  const Group& group = path.group();
  const Board& board = path.board_of(group.rank);
  const uint64_t sequence = operation.sequence;
  const size_t send_bytes = SendExtent(operation, group.rank, group.size);
  Slot& slot = board.slot(group.rank, sequence);
  slot.post = Post{.kind = static_cast<uint32_t>(operation.kind),
                   .type = static_cast<uint32_t>(operation.type),
                   .reduction = static_cast<uint32_t>(operation.reduction),
                   .root = operation.root,
                   .count = operation.count,
                   .send = {},
                   .recv = {},
                   .is_inline = group.one_host && send_bytes <= kInlineBytes,
                   .maps_all_arenas = path.maps_all_arenas()};
  if (slot.post.is_inline) {
    if (send_bytes > 0) std::memcpy(board.payload(group.rank, sequence), operation.send, send_bytes);
  } else {
    slot.post.send = path.Publish(operation.send, send_bytes);
    slot.post.recv = path.Publish(operation.recv, RecvExtent(operation, group.rank, group.size));
  }
  std::copy(operation.send_counts.begin(), operation.send_counts.end(), board.send_counts(group.rank, sequence));
  std::copy(operation.send_offsets.begin(), operation.send_offsets.end(), board.send_offsets(group.rank, sequence));
  std::copy(operation.recv_counts.begin(), operation.recv_counts.end(), board.recv_counts(group.rank, sequence));
  slot.sequence.store(sequence, std::memory_order_release);
  path.SendPost(sequence);
}

bool HasArrived(const DataPath& path, uint32_t rank, uint64_t sequence) {
  return path.board_of(rank).slot(rank, sequence).sequence.load(std::memory_order_acquire) == sequence;
}

bool HasDeparted(const DataPath& path, uint32_t rank, uint64_t sequence) {
  return path.board_of(rank).done(rank).load(std::memory_order_acquire) >= sequence;
}

// Waits until `reached(rank)` holds for every member.
template <typename Condition>
void WaitForAll(DataPath& path, const Operation& operation, Condition reached) {
  Waiter waiter(path, operation);
  const uint32_t ranks = path.group().size;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    while (!reached(rank)) {
      waiter.Pause([&] {
        std::vector<uint32_t> missing;
        for (uint32_t r = rank; r < ranks; ++r)
          if (!reached(r)) missing.push_back(r);
        return missing;
      });
    }
  }
}

enum class Way { kInline, kDirect, kLinked };

Way ChooseWay(const DataPath& path, const Operation& operation) {
  const Group& group = path.group();
  if (!group.one_host) return Way::kLinked;
  bool all_inline = true, all_reachable = true;
  for (uint32_t rank = 0; rank < group.size; ++rank) {
    const Post& post = path.board_of(rank).slot(rank, operation.sequence).post;
    // Extents of the V forms differ between members: a buffer that was posted inline is reachable.
    const bool sends = !post.is_inline && (!IsRooted(operation.kind) || operation.kind == OperationKind::kReduce ||
                                           rank == operation.root);
    all_inline = all_inline && post.is_inline;
    const bool published = post.send.arena_offset != kNowhere || !sends;
    const bool writable = post.recv.arena_offset != kNowhere || !PeersWriteOutput(operation, rank);
    all_reachable = all_reachable && post.maps_all_arenas && published && writable;
  }
  if (all_inline) return Way::kInline;
  return all_reachable || path.one_process() ? Way::kDirect : Way::kLinked;
}

Reached ReachAll(const DataPath& path, const Operation& operation, Way way) {
  const Group& group = path.group();
  Reached reached;
  for (uint32_t rank = 0; rank < group.size; ++rank) {
    const Board& board = path.board_of(rank);
    const Post& post = board.slot(rank, operation.sequence).post;
    const std::byte* source = post.is_inline       ? board.payload(rank, operation.sequence)
                              : rank == group.rank ? static_cast<const std::byte*>(operation.send)
                                                   : path.Reach(rank, post.send);
    reached.sources.push_back(source);
    if (way == Way::kDirect)
      reached.outputs.push_back(rank == group.rank ? static_cast<std::byte*>(operation.recv)
                                                   : path.Reach(rank, post.recv));
  }
  return reached;
}

void Depart(DataPath& path, const Operation& operation) {
  const uint64_t sequence = operation.sequence;
  path.board_of(path.group().rank).done(path.group().rank).store(sequence, std::memory_order_release);
  WaitForAll(path, operation, [&](uint32_t rank) { return HasDeparted(path, rank, sequence); });
}

// True if the output overlaps a part of our own input other than the one it is computed from: then it may be
// written only after everyone has read the input.
bool MustStage(const Operation& operation, const Group& group) {
  if (operation.kind == OperationKind::kAllReduce || operation.kind == OperationKind::kReduce) return false;
  const auto* send = static_cast<const std::byte*>(operation.send);
  const auto* recv = static_cast<const std::byte*>(operation.recv);
  const size_t send_bytes = SendExtent(operation, group.rank, group.size);
  const size_t recv_bytes = RecvExtent(operation, group.rank, group.size);
  if (send_bytes == 0 || recv_bytes == 0 || send + send_bytes <= recv || recv + recv_bytes <= send) return false;
  const Block own_send = SendBlock(operation, group.rank, group.rank);
  const Block own_recv = RecvBlock(operation, group.rank, group.rank);
  const bool same_place = send + own_send.offset == recv + own_recv.offset;
  // With blocks on one side only, nothing else is touched; an all-to-all conflicts with every block.
  return !same_place || operation.kind == OperationKind::kAllToAll;
}

void RunThrough(DataPath& path, const Operation& operation, Way way) {
  if (way == Way::kLinked) return RunLinked(path, operation);
  RunDirect(path, operation, ReachAll(path, operation, way));
  if (way == Way::kDirect) Depart(path, operation);
}

}  // namespace

void RunCollective(DataPath& path, const Operation& operation) {
  PostCollective(path, operation);
  WaitForAll(path, operation, [&](uint32_t rank) { return HasArrived(path, rank, operation.sequence); });
  MatchPosts(path, operation);
  const Way way = ChooseWay(path, operation);
  if (way == Way::kInline || !MustStage(operation, path.group())) return RunThrough(path, operation, way);
  const size_t bytes = RecvExtent(operation, path.group().rank, path.group().size);
  const auto staging = std::make_unique_for_overwrite<std::byte[]>(bytes);
  Operation staged = operation;
  staged.recv = staging.get();
  RunThrough(path, staged, way);
  std::memcpy(operation.recv, staging.get(), bytes);
}

}  // namespace twin
