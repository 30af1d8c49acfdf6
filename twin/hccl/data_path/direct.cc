// Receivers pull their blocks. Reductions are split: each member reduces its slice of all sources, in chunks
// that stay in cache, and writes it to every output. Only a chunk's reducer reads or writes that chunk of any
// buffer, and it reads before it writes, so in-place calls need no special case.
#include "twin/hccl/data_path/direct.h"

#include <algorithm>

#include "twin/hccl/data_path/bulk_copy.h"
#include "twin/hccl/data_path/reduce.h"
#include "twin/hccl/data_path/waiter.h"

namespace twin {
namespace {

constexpr size_t kDirectChunkBytes = 32 * 1024;
// Between pieces of this size, a long copy checks whether a member has failed.
constexpr size_t kPieceBytes = 1024 * 1024;

// The block that `from` holds for us, in its own send buffer.
Block BlockAt(const DataPath& path, const Operation& operation, uint32_t from) {
  const uint32_t self = path.group().rank;
  if (operation.send_counts.empty()) return SendBlock(operation, from, self);
  const Board& board = path.board_of(from);
  const size_t element = TypeBytes(operation.type);
  return {board.send_offsets(from, operation.sequence)[self] * element,
          board.send_counts(from, operation.sequence)[self] * element};
}

void CopyInPieces(DataPath& path, const Operation& operation, std::byte* target, const std::byte* source,
                  size_t bytes) {
  for (size_t done = 0; done < bytes; done += kPieceBytes) {
    ThrowIfFailed(path, operation);
    BulkCopy(target + done, source + done, std::min(kPieceBytes, bytes - done), bytes);
  }
}

void PullBlocks(DataPath& path, const Operation& operation, const Reached& reached) {
  const uint32_t ranks = path.group().size, self = path.group().rank;
  std::byte* const out = static_cast<std::byte*>(operation.recv);
  for (uint32_t step = 0; step < ranks; ++step) {
    const uint32_t from = (self + step) % ranks;  // every member starts at a different peer
    const Block to = RecvBlock(operation, from, self);
    if (to.bytes == 0) continue;
    const std::byte* source =
        reached.sources[from] +
        (operation.kind == OperationKind::kAllGatherV ? 0 : BlockAt(path, operation, from).offset);
    if (source != out + to.offset) CopyInPieces(path, operation, out + to.offset, source, to.bytes);
  }
}

// Reduces elements [start, start + count) of the sources at `inputs` into each of `outputs`.
void ReduceInto(DataPath& path, const Operation& operation, std::vector<const void*> inputs,
                std::vector<std::byte*> outputs, uint64_t count) {
  const size_t element = TypeBytes(operation.type);
  const uint64_t chunk = kDirectChunkBytes / element;
  for (uint64_t done = 0; done < count; done += chunk) {
    if (done * element % kPieceBytes == 0) ThrowIfFailed(path, operation);
    const uint64_t n = std::min(chunk, count - done);
    Reduce(operation.type, operation.reduction, outputs[0], inputs.data(), inputs.size(), n);
    for (size_t o = 1; o < outputs.size(); ++o) BulkCopy(outputs[o], outputs[0], n * element, count * element);
    for (auto& input : inputs) input = static_cast<const std::byte*>(input) + n * element;
    for (auto& output : outputs) output += n * element;
  }
}

void ReduceBlocks(DataPath& path, const Operation& operation, const Reached& reached) {
  const uint32_t ranks = path.group().size;
  std::vector<const void*> inputs(ranks);
  for (uint32_t r = 0; r < ranks; ++r) inputs[r] = reached.sources[r] + BlockAt(path, operation, r).offset;
  ReduceInto(path, operation, std::move(inputs), {static_cast<std::byte*>(operation.recv)}, operation.count);
}

void ReduceSlice(DataPath& path, const Operation& operation, const Reached& reached) {
  const uint32_t ranks = path.group().size, self = path.group().rank;
  const bool to_root = operation.kind == OperationKind::kReduce;
  std::vector<std::byte*> outputs;
  Slice slice{0, operation.count};
  if (reached.outputs.empty()) {
    if (to_root && self != operation.root) return;
    outputs = {static_cast<std::byte*>(operation.recv)};
  } else {
    slice = SliceOf(operation.count, self, ranks);
    if (to_root) outputs = {reached.outputs[operation.root]};
    for (uint32_t step = 0; !to_root && step < ranks; ++step) outputs.push_back(reached.outputs[(self + step) % ranks]);
  }
  const size_t start = slice.start * TypeBytes(operation.type);
  std::vector<const void*> inputs(ranks);
  for (uint32_t r = 0; r < ranks; ++r) inputs[r] = reached.sources[r] + start;
  for (auto& output : outputs) output += start;
  ReduceInto(path, operation, std::move(inputs), std::move(outputs), slice.count);
}

}  // namespace

void RunDirect(DataPath& path, const Operation& operation, const Reached& reached) {
  switch (operation.kind) {
    case OperationKind::kBarrier:
      return;
    case OperationKind::kAllReduce:
    case OperationKind::kReduce:
      return ReduceSlice(path, operation, reached);
    case OperationKind::kReduceScatter:
    case OperationKind::kReduceScatterV:
      return ReduceBlocks(path, operation, reached);
    default:
      return PullBlocks(path, operation, reached);
  }
}

}  // namespace twin
