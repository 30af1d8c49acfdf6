// The operations of a communicator, one short function each: the HCCL call, and beside it the copy that it
// reduces to in a group of one.
#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/comm/communicator.h"
#include "core/comm/hccl_call.h"
#include "core/device/buffer.h"
#include "core/device/cann_declarations.h"
#include "core/trace/trace.h"

namespace trireme {
namespace {

// HCCL only reads its sources, but its signatures are not const.
void* Mutable(const void* source) { return const_cast<void*>(source); }

size_t Bytes(size_t count, DType dtype) { return count * static_cast<size_t>(ByteSize(dtype)); }

void* Shift(void* base, uint64_t elements, DType dtype) {
  return static_cast<std::byte*>(base) + Bytes(elements, dtype);
}

const void* Shift(const void* base, uint64_t elements, DType dtype) {
  return static_cast<const std::byte*>(base) + Bytes(elements, dtype);
}

uint64_t Sum(const std::vector<uint64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }

// The time between two points of a stream, for the trace; nothing if there is no trace.
class StreamSpan {
 public:
  StreamSpan(Trace* trace, const Stream& stream, const std::string& lane, const char* operation)
      : trace_(trace), stream_(stream), lane_(lane), operation_(operation) {
    if (trace_ == nullptr) return;
    start_ = std::make_shared<int64_t>(0);
    stream_.RunOnHost([trace = trace_, start = start_] { *start = trace->Now(); });
  }
  void End() const {
    if (trace_ == nullptr) return;
    stream_.RunOnHost([trace = trace_, lane = lane_, operation = operation_, start = start_] {
      trace->Add({.lane = lane, .name = operation, .start_ns = *start, .end_ns = trace->Now()});
    });
  }

 private:
  Trace* trace_;
  const Stream& stream_;
  const std::string& lane_;
  const char* operation_;
  std::shared_ptr<int64_t> start_;
};

constexpr auto kNothing = [] {};

}  // namespace

template <typename Collective, typename AloneCopy>
Work Communicator::Issue(const char* operation, size_t bytes, const After& after, Collective collective,
                         AloneCopy alone_copy, std::span<const LedgerMessage> messages) {
  const IssueGuard guard(slot_, name().c_str(), operation);
  CallQueue::Call call = BeginCall(operation, bytes, after, messages);
  const uint64_t sequence = call.sequence;
  const StreamSpan span(identity_.trace, stream_, identity_.name, operation);
  if (comm_) {
    const HcclResult code = collective(comm_.get(), stream_.handle());
    if (code != HCCL_SUCCESS) [[unlikely]]
      ThrowHcclError(code, Describe(operation, sequence).c_str(), "");
  } else {
    alone_copy();
  }
  span.End();
  calls_.End(std::move(call));
  return Work(*this, sequence);
}

CallQueue::Call Communicator::BeginCall(const char* operation, size_t bytes, const After& after,
                                        std::span<const LedgerMessage> messages) {
  if (!after.none() || identity_.compute == nullptr) return calls_.Begin(operation, bytes, after, messages);
  const Stream computed = identity_.compute->Flushed();
  return calls_.Begin(operation, bytes, computed, messages);
}

void Communicator::CopyAlone(void* target, const void* source, size_t bytes) {
  if (target == source || bytes == 0) return;
  if (identity_.host_memory) {
    stream_.RunOnHost([=] { std::memcpy(target, source, bytes); });
  } else {
    CopyAsync(target, source, bytes, CopyKind::kDeviceToDevice, stream_);
  }
}

void Communicator::CheckPeer(const char* operation, int peer) const {
  TRIREME_CHECK(peer >= 0 && peer < size())
      << operation << " on group " << name() << " refers to rank " << peer << " of " << size();
}

void Communicator::CheckParts(const char* operation, const Parts& parts) const {
  const auto wanted = static_cast<size_t>(size());
  TRIREME_CHECK(parts.counts.size() == wanted && parts.offsets.size() == wanted)
      << operation << " on group " << name() << " of " << size() << " ranks got " << parts.counts.size()
      << " counts and " << parts.offsets.size() << " offsets";
}

Work Communicator::AllReduce(const void* source, void* target, size_t count, DType dtype, ReduceOp op, After after) {
  return Issue(
      "all_reduce", Bytes(count, dtype), after,
      [&](HcclComm comm, aclrtStream stream) {
        return HcclAllReduce(Mutable(source), target, count, ToHccl(dtype), ToHccl(op), comm, stream);
      },
      [&] { CopyAlone(target, source, Bytes(count, dtype)); });
}

Work Communicator::AllGather(const void* source, void* target, size_t count, DType dtype, After after) {
  return Issue(
      "all_gather", Bytes(count, dtype), after,
      [&](HcclComm comm, aclrtStream stream) {
        return HcclAllGather(Mutable(source), target, count, ToHccl(dtype), comm, stream);
      },
      [&] { CopyAlone(target, source, Bytes(count, dtype)); });
}

Work Communicator::ReduceScatter(const void* source, void* target, size_t count, DType dtype, ReduceOp op,
                                 After after) {
  return Issue(
      "reduce_scatter", Bytes(count, dtype), after,
      [&](HcclComm comm, aclrtStream stream) {
        return HcclReduceScatter(Mutable(source), target, count, ToHccl(dtype), ToHccl(op), comm, stream);
      },
      [&] { CopyAlone(target, source, Bytes(count, dtype)); });
}

Work Communicator::AllToAll(const void* source, void* target, size_t count, DType dtype, After after) {
  return Issue(
      "all_to_all", Bytes(count, dtype), after,
      [&](HcclComm comm, aclrtStream stream) {
        return HcclAlltoAll(source, count, ToHccl(dtype), target, count, ToHccl(dtype), comm, stream);
      },
      [&] { CopyAlone(target, source, Bytes(count, dtype)); });
}

Work Communicator::AllToAllV(const void* source, const Parts& sent, void* target, const Parts& received, DType dtype,
                             After after) {
  CheckParts("all_to_all_v", sent);
  CheckParts("all_to_all_v", received);
  return Issue(
      "all_to_all_v", Bytes(Sum(sent.counts), dtype), after,
      [&](HcclComm comm, aclrtStream stream) {
        return HcclAlltoAllV(source, sent.counts.data(), sent.offsets.data(), ToHccl(dtype), target,
                             received.counts.data(), received.offsets.data(), ToHccl(dtype), comm, stream);
      },
      [&] {
        CopyAlone(Shift(target, received.offsets[0], dtype), Shift(source, sent.offsets[0], dtype),
                  Bytes(sent.counts[0], dtype));
      });
}

Work Communicator::AllGatherV(const void* source, size_t count, void* target, const Parts& received, DType dtype,
                              After after) {
  CheckParts("all_gather_v", received);
  return Issue(
      "all_gather_v", Bytes(count, dtype), after,
      [&](HcclComm comm, aclrtStream stream) {
        return HcclAllGatherV(source, count, target, received.counts.data(), received.offsets.data(), ToHccl(dtype),
                              comm, stream);
      },
      [&] { CopyAlone(Shift(target, received.offsets[0], dtype), source, Bytes(count, dtype)); });
}

Work Communicator::ReduceScatterV(const void* source, const Parts& sent, void* target, size_t count, DType dtype,
                                  ReduceOp op, After after) {
  CheckParts("reduce_scatter_v", sent);
  return Issue(
      "reduce_scatter_v", Bytes(count, dtype), after,
      [&](HcclComm comm, aclrtStream stream) {
        return HcclReduceScatterV(source, sent.counts.data(), sent.offsets.data(), target, count, ToHccl(dtype),
                                  ToHccl(op), comm, stream);
      },
      [&] { CopyAlone(target, Shift(source, sent.offsets[0], dtype), Bytes(count, dtype)); });
}

Work Communicator::Broadcast(void* data, size_t count, DType dtype, int root, After after) {
  CheckPeer("broadcast", root);
  return Issue(
      "broadcast", Bytes(count, dtype), after,
      [&](HcclComm comm, aclrtStream stream) { return HcclBroadcast(data, count, ToHccl(dtype), root, comm, stream); },
      kNothing);
}

Work Communicator::Reduce(const void* source, void* target, size_t count, DType dtype, ReduceOp op, int root,
                          After after) {
  CheckPeer("reduce", root);
  return Issue(
      "reduce", Bytes(count, dtype), after,
      [&](HcclComm comm, aclrtStream stream) {
        return HcclReduce(Mutable(source), target, count, ToHccl(dtype), ToHccl(op), root, comm, stream);
      },
      [&] { CopyAlone(target, source, Bytes(count, dtype)); });
}

Work Communicator::Scatter(const void* source, void* target, size_t count, DType dtype, int root, After after) {
  CheckPeer("scatter", root);
  return Issue(
      "scatter", Bytes(count, dtype), after,
      [&](HcclComm comm, aclrtStream stream) {
        return HcclScatter(Mutable(source), target, count, ToHccl(dtype), root, comm, stream);
      },
      [&] { CopyAlone(target, source, Bytes(count, dtype)); });
}

Work Communicator::Send(const void* source, size_t count, DType dtype, int peer, After after) {
  CheckPeer("send", peer);
  TRIREME_CHECK(peer != rank()) << "send to itself on group " << name() << ", rank " << peer;
  const LedgerMessage message = {.peer = peer, .sends = true};
  return Issue("send", Bytes(count, dtype), after,
               [&](HcclComm comm, aclrtStream stream) {
                 return HcclSend(Mutable(source), count, ToHccl(dtype), peer, comm, stream);
               },
               kNothing, {&message, 1});
}

Work Communicator::Receive(void* target, size_t count, DType dtype, int peer, After after) {
  CheckPeer("receive", peer);
  TRIREME_CHECK(peer != rank()) << "receive from itself on group " << name() << ", rank " << peer;
  const LedgerMessage message = {.peer = peer, .sends = false};
  return Issue(
      "receive", Bytes(count, dtype), after,
      [&](HcclComm comm, aclrtStream stream) { return HcclRecv(target, count, ToHccl(dtype), peer, comm, stream); },
      kNothing, {&message, 1});
}

Work Communicator::BatchSendReceive(std::span<const Transfer> transfers, DType dtype, After after) {
  std::vector<HcclSendRecvItem> items;
  std::vector<LedgerMessage> messages;
  size_t bytes = 0;
  for (const Transfer& transfer : transfers) {
    CheckPeer("batch_send_receive", transfer.peer);
    TRIREME_CHECK(transfer.peer != rank()) << "a batch on group " << name() << " addresses its own rank";
    const bool sends = transfer.direction == Transfer::Direction::kSend;
    items.push_back({sends ? HCCL_SEND : HCCL_RECV, transfer.data, transfer.count, ToHccl(dtype),
                     static_cast<uint32_t>(transfer.peer)});
    messages.push_back({.peer = transfer.peer, .sends = sends});
    bytes += Bytes(transfer.count, dtype);
  }
  return Issue(
      "batch_send_receive", bytes, after,
      [&](HcclComm comm, aclrtStream stream) {
        if (items.empty()) return HCCL_SUCCESS;
        return HcclBatchSendRecv(items.data(), static_cast<uint32_t>(items.size()), comm, stream);
      },
      kNothing, messages);
}

Work Communicator::Barrier(After after) {
  return Issue(
      "barrier", 0, after, [](HcclComm comm, aclrtStream stream) { return HcclBarrier(comm, stream); }, kNothing);
}

}  // namespace trireme
