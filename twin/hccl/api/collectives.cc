// Collectives with one count for all ranks: each describes the call and its preconditions, and queues it.
#include "hccl/hccl.h"
#include "twin/hccl/api/checks.h"
#include "twin/hccl/api/issue.h"

using twin::CheckMovedType;
using twin::CheckReduction;
using twin::CheckRoot;
using twin::Group;
using twin::IssueCall;
using twin::Operation;
using twin::OperationKind;

namespace {

void Describe(Operation& operation, const void* send, const void* recv, uint64_t count, HcclDataType type) {
  operation.send = send;
  operation.recv = const_cast<void*>(recv);  // some calls declare their output const
  operation.count = count;
  operation.type = type;
}

}  // namespace

HcclResult HcclAllReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op,
                         HcclComm comm, aclrtStream stream) {
  return IssueCall(OperationKind::kAllReduce, comm, stream, [&](const Group&, Operation& operation) {
    CheckReduction(dataType, op);
    Describe(operation, sendBuf, recvBuf, count, dataType);
    operation.reduction = op;
  });
}

HcclResult HcclReduce(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType sendType, HcclReduceOp op,
                      uint32_t root, HcclComm comm, aclrtStream stream) {
  return IssueCall(OperationKind::kReduce, comm, stream, [&](const Group& group, Operation& operation) {
    CheckReduction(sendType, op);
    CheckRoot(group, root);
    Describe(operation, sendBuf, recvBuf, count, sendType);
    operation.reduction = op;
    operation.root = root;
  });
}

HcclResult HcclBroadcast(void* buf, uint64_t count, HcclDataType dataType, uint32_t root, HcclComm comm,
                         aclrtStream stream) {
  return IssueCall(OperationKind::kBroadcast, comm, stream, [&](const Group& group, Operation& operation) {
    CheckMovedType(dataType);
    CheckRoot(group, root);
    Describe(operation, buf, buf, count, dataType);
    operation.root = root;
  });
}

HcclResult HcclAllGather(void* sendBuf, void* recvBuf, uint64_t sendCount, HcclDataType dataType, HcclComm comm,
                         aclrtStream stream) {
  return IssueCall(OperationKind::kAllGather, comm, stream, [&](const Group&, Operation& operation) {
    CheckMovedType(dataType);
    Describe(operation, sendBuf, recvBuf, sendCount, dataType);
  });
}

HcclResult HcclReduceScatter(void* sendBuf, void* recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op,
                             HcclComm comm, aclrtStream stream) {
  return IssueCall(OperationKind::kReduceScatter, comm, stream, [&](const Group&, Operation& operation) {
    CheckReduction(dataType, op);
    Describe(operation, sendBuf, recvBuf, recvCount, dataType);
    operation.reduction = op;
  });
}

HcclResult HcclScatter(void* sendBuf, void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t root,
                       HcclComm comm, aclrtStream stream) {
  return IssueCall(OperationKind::kScatter, comm, stream, [&](const Group& group, Operation& operation) {
    CheckMovedType(dataType);
    CheckRoot(group, root);
    Describe(operation, sendBuf, recvBuf, count, dataType);
    operation.root = root;
  });
}

HcclResult HcclAlltoAll(const void* sendBuf, uint64_t sendCount, HcclDataType sendType, const void* recvBuf,
                        uint64_t recvCount, HcclDataType recvType, HcclComm comm, aclrtStream stream) {
  return IssueCall(OperationKind::kAllToAll, comm, stream, [&](const Group&, Operation& operation) {
    twin::CheckSameTypes(sendType, recvType);
    twin::CheckSameCounts(sendCount, recvCount);
    Describe(operation, sendBuf, recvBuf, sendCount, sendType);
  });
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
  return IssueCall(OperationKind::kBarrier, comm, stream, [](const Group&, Operation&) {});
}
