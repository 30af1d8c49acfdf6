// HCCL's operations over NCCL's. Operations that NCCL lacks (uneven and exchanging ones) are a group of its
// sends, broadcasts and reductions, which run as one.
#include "providers/cuda/communicator.h"

using namespace trireme_cuda;

namespace {

struct Call {
  Call(HcclComm comm, aclrtStream stream, HcclDataType type)
      : communicator(Of(comm)), stream(Cuda(stream)), elements(ElementsOf(type)) {}

  const Communicator& communicator;
  cudaStream_t stream;
  Elements elements;

  const Nccl& nccl() const { return TheNccl(); }
  size_t units(uint64_t count) const { return count * elements.units; }
  char* at(const void* base, uint64_t element) const {
    return static_cast<char*>(const_cast<void*>(base)) + element * elements.bytes;
  }
  ncclResult_t Send(const void* data, uint64_t count, int peer) const {
    return nccl().Send(data, units(count), elements.type, peer, communicator.nccl, stream);
  }
  ncclResult_t Receive(void* data, uint64_t count, int peer) const {
    return nccl().Recv(data, units(count), elements.type, peer, communicator.nccl, stream);
  }
  HcclResult Done(ncclResult_t code, const char* function) const { return HcclCode(code, function, communicator.nccl); }
};

HcclResult RefuseReduction() {
  return Refuse(HCCL_E_NOT_SUPPORT, "NCCL does not reduce int16; wanted int8, int32, int64 or a float");
}

// Calls work(peer) for every rank of the group, as one operation; returns the first failure.
template <typename Work>
HcclResult Grouped(const Call& call, const char* function, Work work) {
  ncclResult_t code = call.nccl().GroupStart();
  for (int peer = 0; peer < call.communicator.size && code == ncclSuccess; ++peer) code = work(peer);
  const ncclResult_t end = call.nccl().GroupEnd();
  return call.Done(code == ncclSuccess ? end : code, function);
}

const uint64_t* Numbers(const void* list) { return static_cast<const uint64_t*>(list); }

}  // namespace

extern "C" {

HcclResult HcclAllReduce(void* source, void* target, uint64_t count, HcclDataType type, HcclReduceOp op, HcclComm comm,
                         aclrtStream stream) {
  const Call call(comm, stream, type);
  if (!call.elements.reduces) return RefuseReduction();
  return call.Done(call.nccl().AllReduce(source, target, count, call.elements.type, ReductionOf(op),
                                         call.communicator.nccl, call.stream),
                   "ncclAllReduce");
}

HcclResult HcclBroadcast(void* data, uint64_t count, HcclDataType type, uint32_t root, HcclComm comm,
                         aclrtStream stream) {
  const Call call(comm, stream, type);
  return call.Done(call.nccl().Broadcast(data, data, call.units(count), call.elements.type, static_cast<int>(root),
                                         call.communicator.nccl, call.stream),
                   "ncclBroadcast");
}

HcclResult HcclReduce(void* source, void* target, uint64_t count, HcclDataType type, HcclReduceOp op, uint32_t root,
                      HcclComm comm, aclrtStream stream) {
  const Call call(comm, stream, type);
  if (!call.elements.reduces) return RefuseReduction();
  return call.Done(call.nccl().Reduce(source, target, count, call.elements.type, ReductionOf(op),
                                      static_cast<int>(root), call.communicator.nccl, call.stream),
                   "ncclReduce");
}

HcclResult HcclReduceScatter(void* source, void* target, uint64_t count, HcclDataType type, HcclReduceOp op,
                             HcclComm comm, aclrtStream stream) {
  const Call call(comm, stream, type);
  if (!call.elements.reduces) return RefuseReduction();
  return call.Done(call.nccl().ReduceScatter(source, target, count, call.elements.type, ReductionOf(op),
                                             call.communicator.nccl, call.stream),
                   "ncclReduceScatter");
}

HcclResult HcclAllGather(void* source, void* target, uint64_t count, HcclDataType type, HcclComm comm,
                         aclrtStream stream) {
  const Call call(comm, stream, type);
  return call.Done(
      call.nccl().AllGather(source, target, call.units(count), call.elements.type, call.communicator.nccl, call.stream),
      "ncclAllGather");
}

HcclResult HcclAllGatherV(const void* source, uint64_t, const void* target, const void* counts, const void* offsets,
                          HcclDataType type, HcclComm comm, aclrtStream stream) {
  const Call call(comm, stream, type);
  return Grouped(call, "all_gather_v", [&](int root) {
    return call.nccl().Broadcast(source, call.at(target, Numbers(offsets)[root]), call.units(Numbers(counts)[root]),
                                 call.elements.type, root, call.communicator.nccl, call.stream);
  });
}

HcclResult HcclReduceScatterV(const void* source, const void* counts, const void* offsets, const void* target, uint64_t,
                              HcclDataType type, HcclReduceOp op, HcclComm comm, aclrtStream stream) {
  const Call call(comm, stream, type);
  if (!call.elements.reduces) return RefuseReduction();
  return Grouped(call, "reduce_scatter_v", [&](int root) {
    return call.nccl().Reduce(call.at(source, Numbers(offsets)[root]), const_cast<void*>(target), Numbers(counts)[root],
                              call.elements.type, ReductionOf(op), root, call.communicator.nccl, call.stream);
  });
}

HcclResult HcclAlltoAllV(const void* source, const void* sent, const void* sent_offsets, HcclDataType type,
                         const void* target, const void* received, const void* received_offsets, HcclDataType,
                         HcclComm comm, aclrtStream stream) {
  const Call call(comm, stream, type);
  return Grouped(call, "all_to_all_v", [&](int peer) {
    ncclResult_t code = ncclSuccess;
    if (Numbers(sent)[peer] > 0)
      code = call.Send(call.at(source, Numbers(sent_offsets)[peer]), Numbers(sent)[peer], peer);
    if (code == ncclSuccess && Numbers(received)[peer] > 0)
      code = call.Receive(call.at(target, Numbers(received_offsets)[peer]), Numbers(received)[peer], peer);
    return code;
  });
}

HcclResult HcclAlltoAll(const void* source, uint64_t count, HcclDataType type, const void* target, uint64_t,
                        HcclDataType, HcclComm comm, aclrtStream stream) {
  const Call call(comm, stream, type);
  return Grouped(call, "all_to_all", [&](int peer) {
    const uint64_t offset = count * static_cast<uint64_t>(peer);
    const ncclResult_t code = call.Send(call.at(source, offset), count, peer);
    return code == ncclSuccess ? call.Receive(call.at(target, offset), count, peer) : code;
  });
}

HcclResult HcclScatter(void* source, void* target, uint64_t count, HcclDataType type, uint32_t root, HcclComm comm,
                       aclrtStream stream) {
  const Call call(comm, stream, type);
  const int from = static_cast<int>(root);
  return Grouped(call, "scatter", [&](int peer) {
    ncclResult_t code = ncclSuccess;
    if (call.communicator.rank == from)
      code = call.Send(call.at(source, count * static_cast<uint64_t>(peer)), count, peer);
    if (code == ncclSuccess && peer == call.communicator.rank) code = call.Receive(target, count, from);
    return code;
  });
}

HcclResult HcclSend(void* data, uint64_t count, HcclDataType type, uint32_t peer, HcclComm comm, aclrtStream stream) {
  const Call call(comm, stream, type);
  return call.Done(call.Send(data, count, static_cast<int>(peer)), "ncclSend");
}

HcclResult HcclRecv(void* data, uint64_t count, HcclDataType type, uint32_t peer, HcclComm comm, aclrtStream stream) {
  const Call call(comm, stream, type);
  return call.Done(call.Receive(data, count, static_cast<int>(peer)), "ncclRecv");
}

HcclResult HcclBatchSendRecv(HcclSendRecvItem* items, uint32_t count, HcclComm comm, aclrtStream stream) {
  const Nccl& nccl = TheNccl();
  ncclResult_t code = nccl.GroupStart();
  for (uint32_t i = 0; i < count && code == ncclSuccess; ++i) {
    const Call call(comm, stream, items[i].dataType);
    const int peer = static_cast<int>(items[i].remoteRank);
    code = items[i].sendRecvType == HCCL_SEND ? call.Send(items[i].buf, items[i].count, peer)
                                              : call.Receive(items[i].buf, items[i].count, peer);
  }
  const ncclResult_t end = nccl.GroupEnd();
  return HcclCode(code == ncclSuccess ? end : code, "batch_send_recv", Of(comm).nccl);
}

HcclResult HcclBarrier(HcclComm comm, aclrtStream stream) {
  return HcclAllReduce(Of(comm).token, Of(comm).token, 1, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, stream);
}

}  // extern "C"
