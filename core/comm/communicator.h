// One group of ranks that communicate: every HCCL operation, queued in order on the group's stream,
// numbered and recorded in the ledger. A group of one is an identity. Which groups exist is decided in
// communicator_set.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/comm/after.h"
#include "core/comm/call_queue.h"
#include "core/comm/hccl_types.h"
#include "core/comm/issue_guard.h"
#include "core/comm/ledger.h"
#include "core/comm/stream_waits.h"
#include "core/comm/work.h"
#include "core/device/compute_stream.h"
#include "core/device/stream.h"

namespace trireme {

class Trace;  // core/trace

// One message of a batch, which holds at most one per peer and direction.
struct Transfer {
  enum class Direction { kSend, kReceive };
  Direction direction;
  int peer;  // rank in the group
  void* data;
  size_t count;
};

// The parts of an uneven collective: one entry per rank of the group, in elements.
struct Parts {
  std::vector<uint64_t> counts;
  std::vector<uint64_t> offsets;
};

// Deleter for an HCCL communicator.
struct DestroyHcclComm {
  void operator()(HcclComm comm) const;
};
using OwnedHcclComm = std::unique_ptr<void, DestroyHcclComm>;

class Communicator {
 public:
  struct Identity {
    std::string name;
    std::vector<int> members;          // world ranks in the group's order
    int rank = 0;                      // among the members
    int ledger_group = 0;              // the group's number in the ledger
    bool host_memory = false;          // buffers are in host memory, as on device cpu; twin only
    ComputeStream* compute = nullptr;  // where tensors are computed, if not on the host; outlives the group
    Trace* trace = nullptr;            // receives a span for each call, as the stream ran it; null: none
  };

  // `comm` joins the members; null for a group of one.
  Communicator(Identity identity, OwnedHcclComm comm, IssueSlot& slot, Ledger& ledger);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::string& name() const { return identity_.name; }
  int rank() const { return identity_.rank; }  // in the group
  int size() const { return static_cast<int>(identity_.members.size()); }
  const std::vector<int>& members() const { return identity_.members; }  // world ranks
  const Stream& stream() const { return stream_; }
  // How long computation has waited for calls of this group so far: on the host, and on the compute stream if
  // there is one.
  double waited_seconds() { return waited_seconds_ + stream_waits_.seconds(); }

  // Buffers are device memory (on the twin any memory) and stay untouched until the Work is done. `count` is
  // in elements. In place is allowed for all_reduce, broadcast and reduce. A call starts after `after` or,
  // if there is a compute stream and no `after`, after everything computed so far.
  Work AllReduce(const void* source, void* target, size_t count, DType dtype, ReduceOp op, After after = {});
  // `count` elements from each rank; target holds size() times as many.
  Work AllGather(const void* source, void* target, size_t count, DType dtype, After after = {});
  // `count` elements to each rank; source holds size() times as many.
  Work ReduceScatter(const void* source, void* target, size_t count, DType dtype, ReduceOp op, After after = {});
  // `count` elements from each rank to each rank; both buffers hold size() times as many.
  Work AllToAll(const void* source, void* target, size_t count, DType dtype, After after = {});
  Work AllToAllV(const void* source, const Parts& sent, void* target, const Parts& received, DType dtype,
                 After after = {});
  Work AllGatherV(const void* source, size_t count, void* target, const Parts& received, DType dtype, After after = {});
  Work ReduceScatterV(const void* source, const Parts& sent, void* target, size_t count, DType dtype, ReduceOp op,
                      After after = {});
  Work Broadcast(void* data, size_t count, DType dtype, int root, After after = {});
  // Only root's target is written.
  Work Reduce(const void* source, void* target, size_t count, DType dtype, ReduceOp op, int root, After after = {});
  // `count` elements to each rank; only root's source is read, size() times as many.
  Work Scatter(const void* source, void* target, size_t count, DType dtype, int root, After after = {});

  // A send completes only when its receive is posted: two ranks that both send first deadlock. A batch does
  // not.
  Work Send(const void* source, size_t count, DType dtype, int peer, After after = {});
  Work Receive(void* target, size_t count, DType dtype, int peer, After after = {});
  Work BatchSendReceive(std::span<const Transfer> transfers, DType dtype, After after = {});
  Work Barrier(After after = {});

  // Brings the ledger up to date; from any thread on which the device is current.
  void Poll() { calls_.Poll(); }
  // Waits for everything queued; a failed call is only logged, since its waiter got the error.
  void Drain();

 private:
  friend class Work;

  // Queues the work that `collective` (or, in a group of one, `alone_copy`) puts on the stream.
  template <typename Collective, typename AloneCopy>
  Work Issue(const char* operation, size_t bytes, const After& after, Collective collective, AloneCopy alone_copy,
             std::span<const LedgerMessage> messages = {});
  CallQueue::Call BeginCall(const char* operation, size_t bytes, const After& after,
                            std::span<const LedgerMessage> messages);
  // The identity of a group of one: nothing if both are the same.
  void CopyAlone(void* target, const void* source, size_t bytes);
  void CheckPeer(const char* operation, int peer) const;
  void CheckParts(const char* operation, const Parts& parts) const;

  void WaitFor(uint64_t sequence);
  void Join(uint64_t sequence);
  bool WaitSlice(uint64_t sequence);
  void ThrowIfPeerFailed(uint64_t sequence);
  [[noreturn]] void ThrowFailed(uint64_t sequence, const Error& cause);
  std::string Describe(const char* operation, uint64_t sequence) const;

  const Identity identity_;
  double waited_seconds_ = 0;
  StreamWaits stream_waits_;
  IssueSlot& slot_;
  Stream stream_;
  OwnedHcclComm comm_;  // declared after the stream: HCCL requires it to be destroyed first
  CallQueue calls_;
};

}  // namespace trireme
