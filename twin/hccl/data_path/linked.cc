// What each collective exchanges. A member's own block never goes through a link.
#include "twin/hccl/data_path/linked.h"

#include <cstring>

#include "twin/hccl/data_path/exchange.h"

namespace twin {
namespace {

void ExchangeBlocks(DataPath& path, const Operation& operation) {
  const uint32_t ranks = path.group().size, self = path.group().rank;
  const auto* send = static_cast<const std::byte*>(operation.send);
  auto* recv = static_cast<std::byte*>(operation.recv);
  Exchange exchange(path, operation);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const Block out = SendBlock(operation, self, rank), in = RecvBlock(operation, rank, self);
    if (rank != self) {
      // A buffer that this rank does not use may be null: do not form a pointer from it.
      if (out.bytes > 0) exchange.Send(rank, send + out.offset, out.bytes);
      if (in.bytes > 0) exchange.Receive(rank, recv + in.offset, in.bytes);
    } else if (in.bytes > 0 && send + out.offset != recv + in.offset) {
      std::memcpy(recv + in.offset, send + out.offset, in.bytes);
    }
  }
  exchange.Run();
}

void ReduceScatter(DataPath& path, const Operation& operation) {
  const uint32_t self = path.group().rank;
  const auto* send = static_cast<const std::byte*>(operation.send);
  Exchange exchange(path, operation);
  for (uint32_t rank = 0; rank < path.group().size; ++rank) {
    const Block out = SendBlock(operation, self, rank);
    if (rank != self) exchange.Send(rank, send + out.offset, out.bytes);
  }
  const Block own = SendBlock(operation, self, self);
  exchange.ReduceFromAll(send + own.offset, operation.recv, own.bytes);
  exchange.Run();
}

// All-reduce and reduce: every member reduces a slice, then sends it to all or to the root. Our slice is sent
// before its reduced form can arrive, so `recv` may equal `send`.
void ReduceSlices(DataPath& path, const Operation& operation) {
  const uint32_t ranks = path.group().size, self = path.group().rank;
  const size_t element = TypeBytes(operation.type);
  const bool to_root = operation.kind == OperationKind::kReduce;
  const auto* send = static_cast<const std::byte*>(operation.send);
  const Slice mine = SliceOf(operation.count, self, ranks);
  const bool keep = !to_root || self == operation.root;
  std::vector<std::byte> scratch(keep ? 0 : mine.count * element);
  std::byte* reduced = keep ? static_cast<std::byte*>(operation.recv) + mine.start * element : scratch.data();
  Exchange exchange(path, operation);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (rank == self) continue;
    const Slice other = SliceOf(operation.count, rank, ranks);
    exchange.Send(rank, send + other.start * element, other.count * element);
    if (!to_root || rank == operation.root) exchange.Send(rank, reduced, mine.count * element, true);
    if (keep)
      exchange.Receive(rank, static_cast<std::byte*>(operation.recv) + other.start * element, other.count * element);
  }
  exchange.ReduceFromAll(send + mine.start * element, reduced, mine.count * element);
  exchange.Run();
}

}  // namespace

void RunLinked(DataPath& path, const Operation& operation) {
  for (uint32_t rank = 0; rank < path.group().size; ++rank) {
    if (rank == path.group().rank) continue;
    path.link(rank).SetOutgoingTag(operation.sequence);
    path.link(rank).SetIncomingTag(operation.sequence);
  }
  switch (operation.kind) {
    case OperationKind::kBarrier:
      return;
    case OperationKind::kAllReduce:
    case OperationKind::kReduce:
      return ReduceSlices(path, operation);
    case OperationKind::kReduceScatter:
    case OperationKind::kReduceScatterV:
      return ReduceScatter(path, operation);
    default:
      return ExchangeBlocks(path, operation);
  }
}

}  // namespace twin
