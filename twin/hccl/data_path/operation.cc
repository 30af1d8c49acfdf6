// Names, sizes and block geometry of the HCCL calls.
#include "twin/hccl/data_path/operation.h"

#include <algorithm>

namespace twin {

namespace {

// The bytes up to the end of the last block.
size_t Extent(const std::vector<uint64_t>& counts, const std::vector<uint64_t>& offsets, size_t element) {
  uint64_t end = 0;
  for (size_t r = 0; r < counts.size(); ++r)
    if (counts[r] > 0) end = std::max(end, offsets[r] + counts[r]);
  return end * element;
}

}  // namespace

const char* CallName(OperationKind kind) {
  switch (kind) {
    case OperationKind::kAllReduce:
      return "HcclAllReduce";
    case OperationKind::kReduce:
      return "HcclReduce";
    case OperationKind::kBroadcast:
      return "HcclBroadcast";
    case OperationKind::kAllGather:
      return "HcclAllGather";
    case OperationKind::kAllGatherV:
      return "HcclAllGatherV";
    case OperationKind::kReduceScatter:
      return "HcclReduceScatter";
    case OperationKind::kReduceScatterV:
      return "HcclReduceScatterV";
    case OperationKind::kScatter:
      return "HcclScatter";
    case OperationKind::kAllToAll:
      return "HcclAlltoAll";
    case OperationKind::kAllToAllV:
      return "HcclAlltoAllV";
    case OperationKind::kAllToAllVC:
      return "HcclAlltoAllVC";
    case OperationKind::kBarrier:
      return "HcclBarrier";
    case OperationKind::kSend:
      return "HcclSend";
    case OperationKind::kReceive:
      return "HcclRecv";
    case OperationKind::kBatch:
      return "HcclBatchSendRecv";
  }
  return "an unknown HCCL call";
}

const char* TypeName(HcclDataType type) {
  static const char* const kNames[] = {"int8",   "int16", "int32",  "fp16",   "fp32", "int64",
                                       "uint64", "uint8", "uint16", "uint32", "fp64", "bfp16"};
  const auto index = static_cast<size_t>(type);
  return index < std::size(kNames) ? kNames[index] : "an unknown type";
}

const char* ReductionName(HcclReduceOp op) {
  static const char* const kNames[] = {"sum", "prod", "max", "min"};
  const auto index = static_cast<size_t>(op);
  return index < std::size(kNames) ? kNames[index] : "an unknown reduction";
}

size_t TypeBytes(HcclDataType type) {
  static const size_t kBytes[] = {1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2};
  const auto index = static_cast<size_t>(type);
  return index < std::size(kBytes) ? kBytes[index] : 0;
}

bool IsPointToPoint(OperationKind kind) {
  return kind == OperationKind::kSend || kind == OperationKind::kReceive || kind == OperationKind::kBatch;
}

bool IsReduction(OperationKind kind) {
  return kind == OperationKind::kAllReduce || kind == OperationKind::kReduce || kind == OperationKind::kReduceScatter ||
         kind == OperationKind::kReduceScatterV;
}

bool IsRooted(OperationKind kind) {
  return kind == OperationKind::kReduce || kind == OperationKind::kBroadcast || kind == OperationKind::kScatter;
}

std::string DescribeOperation(const Operation& operation, const std::string& group) {
  std::string text = CallName(operation.kind);
  if (IsPointToPoint(operation.kind)) {
    for (const Message& message : operation.messages)
      text += (message.is_send ? " to " : " from ") + std::to_string(message.peer) + " #" +
              std::to_string(message.sequence);
  } else {
    text += " #" + std::to_string(operation.sequence);
  }
  return text + " of group '" + group + "'";
}

Block SendBlock(const Operation& operation, uint32_t from, uint32_t to) {
  const size_t element = TypeBytes(operation.type);
  const size_t bytes = operation.count * element;
  switch (operation.kind) {
    case OperationKind::kBroadcast:
      return {0, from == operation.root ? bytes : 0};
    case OperationKind::kScatter:
      return {to * bytes, from == operation.root ? bytes : 0};
    case OperationKind::kAllGather:
    case OperationKind::kAllGatherV:
      return {0, bytes};
    case OperationKind::kReduceScatter:
    case OperationKind::kAllToAll:
      return {to * bytes, bytes};
    case OperationKind::kReduceScatterV:
    case OperationKind::kAllToAllV:
    case OperationKind::kAllToAllVC:
      return {operation.send_offsets[to] * element, operation.send_counts[to] * element};
    default:
      return {};
  }
}

Block RecvBlock(const Operation& operation, uint32_t from, uint32_t to) {
  const size_t element = TypeBytes(operation.type);
  const size_t bytes = operation.count * element;
  switch (operation.kind) {
    case OperationKind::kBroadcast:
    case OperationKind::kScatter:
      return {0, from == operation.root ? bytes : 0};
    case OperationKind::kReduceScatter:
    case OperationKind::kReduceScatterV:
      return {0, bytes};
    case OperationKind::kAllGather:
    case OperationKind::kAllToAll:
      return {from * bytes, bytes};
    case OperationKind::kAllGatherV:
    case OperationKind::kAllToAllV:
    case OperationKind::kAllToAllVC:
      return {operation.recv_offsets[from] * element, operation.recv_counts[from] * element};
    default:
      return {};
  }
}

size_t SendExtent(const Operation& operation, uint32_t rank, uint32_t ranks) {
  const size_t element = TypeBytes(operation.type);
  const size_t bytes = operation.count * element;
  switch (operation.kind) {
    case OperationKind::kAllReduce:
    case OperationKind::kReduce:
    case OperationKind::kAllGather:
    case OperationKind::kAllGatherV:
      return bytes;
    case OperationKind::kBroadcast:
      return rank == operation.root ? bytes : 0;
    case OperationKind::kScatter:
      return rank == operation.root ? ranks * bytes : 0;
    case OperationKind::kReduceScatter:
    case OperationKind::kAllToAll:
      return ranks * bytes;
    case OperationKind::kReduceScatterV:
    case OperationKind::kAllToAllV:
    case OperationKind::kAllToAllVC:
      return Extent(operation.send_counts, operation.send_offsets, element);
    default:
      return 0;
  }
}

size_t RecvExtent(const Operation& operation, uint32_t rank, uint32_t ranks) {
  const size_t element = TypeBytes(operation.type);
  const size_t bytes = operation.count * element;
  switch (operation.kind) {
    case OperationKind::kAllReduce:
    case OperationKind::kReduceScatter:
    case OperationKind::kReduceScatterV:
    case OperationKind::kScatter:
      return bytes;
    case OperationKind::kReduce:
      return rank == operation.root ? bytes : 0;
    case OperationKind::kBroadcast:
      return rank == operation.root ? 0 : bytes;
    case OperationKind::kAllGather:
    case OperationKind::kAllToAll:
      return ranks * bytes;
    case OperationKind::kAllGatherV:
    case OperationKind::kAllToAllV:
    case OperationKind::kAllToAllVC:
      return Extent(operation.recv_counts, operation.recv_offsets, element);
    default:
      return 0;
  }
}

Slice SliceOf(uint64_t count, uint32_t rank, uint32_t ranks) {
  constexpr uint64_t kGrain = 64;  // elements: at least one cache line of any type
  const uint64_t each = ((count + ranks - 1) / ranks + kGrain - 1) / kGrain * kGrain;
  const uint64_t start = std::min(count, each * rank);
  return {start, std::min(count - start, each)};
}

}  // namespace twin
