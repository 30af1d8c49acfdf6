// Point-to-point calls. A send or a receive is a batch of one.
#include "hccl/hccl.h"
#include "twin/hccl/api/checks.h"
#include "twin/hccl/api/issue.h"
#include "twin/hccl/failure.h"

using twin::Group;
using twin::IssueCall;
using twin::Message;
using twin::Operation;
using twin::OperationKind;

namespace {

HcclResult IssueOne(OperationKind kind, const Message& message, HcclComm comm, aclrtStream stream) {
  return IssueCall(kind, comm, stream,
                   [&](const Group&, Operation& operation) { operation.messages.push_back(message); });
}

}  // namespace

HcclResult HcclSend(void* sendBuf, uint64_t count, HcclDataType dataType, uint32_t destRank, HcclComm comm,
                    aclrtStream stream) {
  return IssueOne(OperationKind::kSend, {true, destRank, sendBuf, count, dataType}, comm, stream);
}

HcclResult HcclRecv(void* recvBuf, uint64_t count, HcclDataType dataType, uint32_t srcRank, HcclComm comm,
                    aclrtStream stream) {
  return IssueOne(OperationKind::kReceive, {false, srcRank, recvBuf, count, dataType}, comm, stream);
}

HcclResult HcclBatchSendRecv(HcclSendRecvItemDef* sendRecvInfo, uint32_t itemNum, HcclComm comm, aclrtStream stream) {
  return IssueCall(OperationKind::kBatch, comm, stream, [&](const Group&, Operation& operation) {
    if (itemNum > 0) twin::NeedPointer(sendRecvInfo, "sendRecvInfo");
    for (uint32_t i = 0; i < itemNum; ++i) {
      const HcclSendRecvItem& item = sendRecvInfo[i];
      if (item.sendRecvType != HCCL_SEND && item.sendRecvType != HCCL_RECV)
        throw twin::HcclFailure(HCCL_E_PARA, "item " + std::to_string(i) + " is of kind " +
                                                 std::to_string(static_cast<int>(item.sendRecvType)) +
                                                 "; wanted HCCL_SEND or HCCL_RECV");
      operation.messages.push_back(
          {item.sendRecvType == HCCL_SEND, item.remoteRank, item.buf, item.count, item.dataType});
    }
  });
}
