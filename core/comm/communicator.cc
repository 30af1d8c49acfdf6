// How a call is waited for and how a failure is reported; the operations themselves are in collectives.cc.
#include "core/comm/communicator.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/comm/hccl_call.h"

namespace trireme {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// How often a waiting host checks whether a peer has failed.
constexpr milliseconds kSlice{100};
constexpr microseconds kShortestNap{20};
constexpr microseconds kLongestNap{500};

}  // namespace

void DestroyHcclComm::operator()(HcclComm comm) const {
  const HcclResult code = HcclCommDestroy(comm);
  if (code != HCCL_SUCCESS) TRIREME_LOG(WARNING) << "HcclCommDestroy: " << HcclErrorName(code);
}

Communicator::Communicator(Identity identity, OwnedHcclComm comm, IssueSlot& slot, Ledger& ledger)
    : identity_(std::move(identity)),
      slot_(slot),
      comm_(std::move(comm)),
      calls_(stream_, ledger, identity_.ledger_group) {}

Communicator::~Communicator() {
  if (std::uncaught_exceptions() > 0) {
    // A peer may never answer what is queued: the process is about to end and the communicator ends with it.
    static_cast<void>(comm_.release());
    return;
  }
  Drain();
}

void Communicator::Drain() {
  try {
    stream_.Synchronize();
  } catch (const Error& error) {
    TRIREME_LOG(WARNING) << "group " << name() << " is closed with a failed call: " << error.what();
  }
}

void Communicator::WaitFor(uint64_t sequence) {
  const Clock::time_point start = Clock::now();
  while (!WaitSlice(sequence)) ThrowIfPeerFailed(sequence);
  // When tensors are computed on a stream, only the stream's own waits count as exposed communication.
  if (identity_.compute == nullptr) {
    waited_seconds_ += SecondsSince(start);
  }
}

void Communicator::Join(uint64_t sequence) {
  if (identity_.compute == nullptr) return WaitFor(sequence);
  if (calls_.IsDone(sequence)) return;
  const Stream computing = identity_.compute->Current();
  stream_waits_.Measure(computing, [&] { calls_.LetWait(computing, sequence); });
}

// Returns true when the call is done, false when a slice of time has passed first.
bool Communicator::WaitSlice(uint64_t sequence) try {
  if (calls_.IsDone(sequence)) return true;
  // Nothing is queued after the latest call, so the stream itself can be waited for, which has the lowest
  // latency.
  if (calls_.IsLatest(sequence)) {
    if (!stream_.SynchronizeFor(kSlice)) return false;
    calls_.MarkDone(sequence);
    return true;
  }
  const Clock::time_point end = Clock::now() + kSlice;
  for (microseconds nap = kShortestNap; Clock::now() < end; nap = std::min(nap * 5 / 4, kLongestNap)) {
    if (calls_.IsDone(sequence)) return true;
    std::this_thread::sleep_for(nap);
  }
  return false;
} catch (const Error& error) {
  ThrowFailed(sequence, error);
}

void Communicator::ThrowIfPeerFailed(uint64_t sequence) {
  if (!comm_) return;
  HcclResult failure = HCCL_SUCCESS;
  HcclCall(HcclGetCommAsyncError(comm_.get(), &failure), "HcclGetCommAsyncError", "group ", name());
  if (failure != HCCL_SUCCESS) ThrowFailed(sequence, RemoteError(HcclErrorName(failure)));
}

void Communicator::ThrowFailed(uint64_t sequence, const Error& cause) {
  HcclResult failure = HCCL_SUCCESS;
  if (comm_) static_cast<void>(HcclGetCommAsyncError(comm_.get(), &failure));
  const std::string text = Concat(Describe(calls_.OperationOf(sequence), sequence), " failed: ", cause.what());
  if (failure == HCCL_SUCCESS && cause.kind() != ErrorKind::kRemote) throw RuntimeError(text);
  throw RemoteError(text, "; a member of the group failed, and its own message says why");
}

std::string Communicator::Describe(const char* operation, uint64_t sequence) const {
  return Concat("group ", name(), ", ", operation, " number ", sequence, " on rank ", members()[rank()], " (", rank(),
                " of ", size(), " in the group)");
}

void Work::Wait() const { communicator_->WaitFor(sequence_); }

void Work::Join() const { communicator_->Join(sequence_); }

void Work::WaitOn(const Stream& stream) const { communicator_->calls_.LetWait(stream, sequence_); }

bool Work::done() const { return communicator_->calls_.IsDone(sequence_); }

}  // namespace trireme
