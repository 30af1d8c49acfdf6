// Collectives with a count per rank. Arrays belong to the caller and are copied before the call returns.
#include "hccl/hccl.h"
#include "twin/hccl/api/checks.h"
#include "twin/hccl/api/issue.h"
#include "twin/hccl/failure.h"

using twin::Group;
using twin::IssueCall;
using twin::NeedPointer;
using twin::Operation;
using twin::OperationKind;

namespace {

std::vector<uint64_t> CopyArray(const void* array, size_t entries, const char* name) {
  NeedPointer(array, name);
  const auto* values = static_cast<const uint64_t*>(array);
  return {values, values + entries};
}

}  // namespace

HcclResult HcclAllGatherV(const void* sendBuf, uint64_t sendCount, const void* recvBuf, const void* recvCounts,
                          const void* rdispls, HcclDataType dataType, HcclComm comm, aclrtStream stream) {
  return IssueCall(OperationKind::kAllGatherV, comm, stream, [&](const Group& group, Operation& operation) {
    twin::CheckMovedType(dataType);
    operation.send = sendBuf;
    operation.recv = const_cast<void*>(recvBuf);
    operation.count = sendCount;
    operation.type = dataType;
    operation.recv_counts = CopyArray(recvCounts, group.size, "recvCounts");
    operation.recv_offsets = CopyArray(rdispls, group.size, "rdispls");
    twin::CheckBuffersDiffer(operation);
  });
}

HcclResult HcclReduceScatterV(const void* sendBuf, const void* sendCounts, const void* sdispls, const void* recvBuf,
                              uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, HcclComm comm,
                              aclrtStream stream) {
  return IssueCall(OperationKind::kReduceScatterV, comm, stream, [&](const Group& group, Operation& operation) {
    twin::CheckReduction(dataType, op);
    twin::CheckNoProduct(op);
    operation.send = sendBuf;
    operation.recv = const_cast<void*>(recvBuf);
    operation.count = recvCount;
    operation.type = dataType;
    operation.reduction = op;
    operation.send_counts = CopyArray(sendCounts, group.size, "sendCounts");
    operation.send_offsets = CopyArray(sdispls, group.size, "sdispls");
  });
}

HcclResult HcclAlltoAllV(const void* sendBuf, const void* sendCounts, const void* sdispls, HcclDataType sendType,
                         const void* recvBuf, const void* recvCounts, const void* rdispls, HcclDataType recvType,
                         HcclComm comm, aclrtStream stream) {
  return IssueCall(OperationKind::kAllToAllV, comm, stream, [&](const Group& group, Operation& operation) {
    twin::CheckSameTypes(sendType, recvType);
    operation.send = sendBuf;
    operation.recv = const_cast<void*>(recvBuf);
    operation.type = sendType;
    operation.send_counts = CopyArray(sendCounts, group.size, "sendCounts");
    operation.send_offsets = CopyArray(sdispls, group.size, "sdispls");
    operation.recv_counts = CopyArray(recvCounts, group.size, "recvCounts");
    operation.recv_offsets = CopyArray(rdispls, group.size, "rdispls");
    twin::CheckBuffersDiffer(operation);
  });
}

// Entry (row, column) is what rank `row` sends to rank `column`; blocks are contiguous.
HcclResult HcclAlltoAllVC(const void* sendBuf, const void* sendCountMatrix, HcclDataType sendType, const void* recvBuf,
                          HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  return IssueCall(OperationKind::kAllToAllVC, comm, stream, [&](const Group& group, Operation& operation) {
    twin::CheckSameTypes(sendType, recvType);
    const size_t ranks = group.size;
    const auto matrix = CopyArray(sendCountMatrix, ranks * ranks, "sendCountMatrix");
    operation.send = sendBuf;
    operation.recv = const_cast<void*>(recvBuf);
    operation.type = sendType;
    uint64_t sent = 0, received = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      operation.send_counts.push_back(matrix[group.rank * ranks + rank]);
      operation.recv_counts.push_back(matrix[rank * ranks + group.rank]);
      operation.send_offsets.push_back(sent);
      operation.recv_offsets.push_back(received);
      sent += operation.send_counts.back();
      received += operation.recv_counts.back();
    }
    twin::CheckBuffersDiffer(operation);
  });
}
