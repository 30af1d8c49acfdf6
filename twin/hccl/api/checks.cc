// The restrictions of HCCL on Atlas A2.
#include "twin/hccl/api/checks.h"

#include <set>
#include <utility>

#include "twin/acl/internal.h"
#include "twin/hccl/data_path/reduce.h"
#include "twin/hccl/failure.h"

namespace twin {
namespace {

bool Overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto a_start = reinterpret_cast<uintptr_t>(a), b_start = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && a_start < b_start + b_bytes && b_start < a_start + a_bytes;
}

}  // namespace

void CheckMovedType(HcclDataType type) {
  if (TypeBytes(type) == 0)
    throw HcclFailure(HCCL_E_NOT_SUPPORT, "data type " + std::to_string(static_cast<int>(type)) +
                                              " is not supported; wanted int8..int64, uint8..uint64, fp16, fp32, fp64 "
                                              "or bfp16");
}

void CheckReduction(HcclDataType type, HcclReduceOp reduction) {
  if (ReductionSupported(type, reduction)) return;
  throw HcclFailure(HCCL_E_NOT_SUPPORT, std::string(ReductionName(reduction)) + " (" +
                                            std::to_string(static_cast<int>(reduction)) + ") of " + TypeName(type) +
                                            " (" + std::to_string(static_cast<int>(type)) +
                                            ") is not supported; reductions take int8, int16, int32, int64, fp16, fp32 "
                                            "and bfp16, prod not int16 and bfp16");
}

void CheckNoProduct(HcclReduceOp reduction) {
  if (reduction != HCCL_REDUCE_PROD) return;
  throw HcclFailure(HCCL_E_NOT_SUPPORT, "prod (1) is not supported by this call; wanted sum, max or min");
}

void CheckSameTypes(HcclDataType send, HcclDataType recv) {
  CheckMovedType(send);
  CheckMovedType(recv);
  if (send == recv) return;
  throw HcclFailure(HCCL_E_PARA, std::string("the send type is ") + TypeName(send) + ", the receive type " +
                                     TypeName(recv) + "; they must be the same");
}

void CheckSameCounts(uint64_t send, uint64_t recv) {
  if (send == recv) return;
  throw HcclFailure(HCCL_E_PARA, "the send count is " + std::to_string(send) + ", the receive count " +
                                     std::to_string(recv) + "; they must be equal");
}

void CheckBuffersDiffer(const Operation& operation) {
  if (operation.send != nullptr && operation.send == operation.recv)
    throw HcclFailure(HCCL_E_PARA, "the receive buffer is the send buffer; this call needs two buffers");
}

void CheckOwnBlock(const Operation& operation, uint32_t rank) {
  uint64_t sent = operation.count, received = operation.count;
  if (!operation.send_counts.empty()) sent = operation.send_counts[rank];
  if (!operation.recv_counts.empty()) received = operation.recv_counts[rank];
  if (sent == received) return;
  throw HcclFailure(HCCL_E_PARA, "rank " + std::to_string(rank) + " sends itself " + std::to_string(sent) +
                                     " elements and expects " + std::to_string(received));
}

void CheckRoot(const Group& group, uint32_t root) {
  if (root < group.size) return;
  throw HcclFailure(HCCL_E_PARA, "root is " + std::to_string(root) + ", the communicator '" + group.name + "' has " +
                                     std::to_string(group.size) + " ranks");
}

void CheckStream(const Group& group, aclrtStream stream) {
  const int device = StreamDevice(stream);
  if (device < 0) throw HcclFailure(HCCL_E_PARA, "the stream handle is not a live stream");
  if (device != group.device)
    throw HcclFailure(HCCL_E_PARA, "the stream belongs to device " + std::to_string(device) + ", the communicator '" +
                                       group.name + "' to device " + std::to_string(group.device));
  if (StreamContext(stream) != group.context)
    throw HcclFailure(HCCL_E_PARA, "the stream was created in another context than the communicator '" + group.name +
                                       "'; use a communicator from one context only");
}

void CheckBuffers(const Group& group, const Operation& operation) {
  if (SendExtent(operation, group.rank, group.size) > 0) NeedPointer(operation.send, "the send buffer");
  if (RecvExtent(operation, group.rank, group.size) > 0) NeedPointer(operation.recv, "the receive buffer");
}

void CheckOverlap(const Group& group, const Operation& operation) {
  const size_t send_bytes = SendExtent(operation, group.rank, group.size);
  const size_t recv_bytes = RecvExtent(operation, group.rank, group.size);
  if (!Overlap(operation.send, send_bytes, operation.recv, recv_bytes)) return;
  switch (operation.kind) {
    case OperationKind::kAllToAllV:
    case OperationKind::kAllToAllVC:
    case OperationKind::kAllGatherV:
      throw HcclFailure(HCCL_E_PARA,
                        "the receive buffer overlaps the send buffer; this call needs two separate buffers");
    case OperationKind::kAllReduce:
    case OperationKind::kReduce:
      if (operation.send == operation.recv) return;
      throw HcclFailure(
          HCCL_E_PARA, "the receive buffer partly overlaps the send buffer; pass the same buffer or two separate ones");
    default:
      return;
  }
}

void CheckMessages(const Group& group, const Operation& operation) {
  std::set<std::pair<uint32_t, bool>> seen;
  for (const Message& message : operation.messages) {
    const std::string what =
        std::string(message.is_send ? "a send to" : "a receive from") + " rank " + std::to_string(message.peer);
    if (message.peer >= group.size)
      throw HcclFailure(HCCL_E_PARA,
                        what + ": the communicator '" + group.name + "' has " + std::to_string(group.size) + " ranks");
    if (message.peer == group.rank) throw HcclFailure(HCCL_E_PARA, what + ", which is this rank itself");
    if (!seen.insert({message.peer, message.is_send}).second)
      throw HcclFailure(HCCL_E_PARA,
                        what + " appears twice in the batch; one message per peer and direction is allowed");
    CheckMovedType(message.type);
    if (message.count > 0) NeedPointer(message.buffer, "the message's buffer");
  }
}

}  // namespace twin
