// ACL's streams and events over CUDA's. A handle is CUDA's own, so that torch's current stream can be used
// as ACL's; the null handle is the default stream in both.
#include <chrono>
#include <thread>

#include "acl/error_codes/rt_error_codes.h"
#include "providers/cuda/error.h"

namespace {

using trireme_cuda::AclCode;
using trireme_cuda::Refuse;
using Clock = std::chrono::steady_clock;

constexpr aclError kStreamSyncTimeout = 507046;  // not defined in the pinned headers

cudaStream_t Cuda(aclrtStream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t CudaEvent(aclrtEvent event) { return static_cast<cudaEvent_t>(event); }

// "Not ready" is an answer, not an error: CUDA must forget it, or torch's next check would find it.
bool NotReady(cudaError_t code) {
  if (code != cudaErrorNotReady) return false;
  static_cast<void>(cudaGetLastError());
  return true;
}

// Spins for short work; yields the core to others during long work.
void Nap(Clock::time_point since) {
  constexpr std::chrono::microseconds kSpin{200}, kNap{50};
  if (Clock::now() - since > kSpin) std::this_thread::sleep_for(kNap);
}

}  // namespace

extern "C" {

// Not ordered with the default stream: callers that need order use events.
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) {
  cudaStream_t made = nullptr;
  const aclError code = AclCode(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  *stream = made;
  return code;
}

aclError aclrtDestroyStream(aclrtStream stream) {
  return AclCode(cudaStreamDestroy(Cuda(stream)), "cudaStreamDestroy");
}

// CUDA does not wait for the work either: queued work still runs.
aclError aclrtDestroyStreamForce(aclrtStream stream) { return aclrtDestroyStream(stream); }

// After a failed kernel CUDA runs nothing more in this process.
aclError aclrtSetStreamFailureMode(aclrtStream, uint64_t) { return ACL_SUCCESS; }

aclError aclrtSynchronizeStream(aclrtStream stream) {
  return AclCode(cudaStreamSynchronize(Cuda(stream)), "cudaStreamSynchronize");
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout_ms) {
  if (timeout_ms < 0) return aclrtSynchronizeStream(stream);
  const Clock::time_point start = Clock::now(), end = start + std::chrono::milliseconds(timeout_ms);
  while (true) {
    const cudaError_t code = cudaStreamQuery(Cuda(stream));
    if (!NotReady(code)) return AclCode(code, "cudaStreamQuery");
    if (Clock::now() > end) return Refuse(kStreamSyncTimeout, "the stream has not finished in time");
    Nap(start);
  }
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  const cudaError_t code = cudaStreamQuery(Cuda(stream));
  const bool waiting = NotReady(code);
  *status = waiting ? ACL_STREAM_STATUS_NOT_READY : ACL_STREAM_STATUS_COMPLETE;
  return waiting ? ACL_SUCCESS : AclCode(code, "cudaStreamQuery");
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return AclCode(cudaStreamWaitEvent(Cuda(stream), CudaEvent(event), 0), "cudaStreamWaitEvent");
}

// Declared by its caller (core/device/cann_declarations.h): the pinned headers do not have it yet.
aclError aclrtLaunchHostFunc(aclrtStream stream, void (*function)(void*), void* argument) {
  return AclCode(cudaLaunchHostFunc(Cuda(stream), function, argument), "cudaLaunchHostFunc");
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flags) {
  cudaEvent_t made = nullptr;
  const bool timed = (flags & ACL_EVENT_TIME_LINE) != 0;
  const aclError code = AclCode(cudaEventCreateWithFlags(&made, timed ? cudaEventDefault : cudaEventDisableTiming),
                                "cudaEventCreateWithFlags");
  *event = made;
  return code;
}

aclError aclrtDestroyEvent(aclrtEvent event) { return AclCode(cudaEventDestroy(CudaEvent(event)), "cudaEventDestroy"); }

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return AclCode(cudaEventRecord(CudaEvent(event), Cuda(stream)), "cudaEventRecord");
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  const cudaError_t code = cudaEventQuery(CudaEvent(event));
  const bool waiting = NotReady(code);
  *status = waiting ? ACL_EVENT_RECORDED_STATUS_NOT_READY : ACL_EVENT_RECORDED_STATUS_COMPLETE;
  return waiting ? ACL_SUCCESS : AclCode(code, "cudaEventQuery");
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return AclCode(cudaEventSynchronize(CudaEvent(event)), "cudaEventSynchronize");
}

aclError aclrtEventElapsedTime(float* milliseconds, aclrtEvent start, aclrtEvent end) {
  const cudaError_t code = cudaEventElapsedTime(milliseconds, CudaEvent(start), CudaEvent(end));
  if (code == cudaErrorInvalidResourceHandle) {
    static_cast<void>(cudaGetLastError());
    return Refuse(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "an event was created without timing");
  }
  return AclCode(code, "cudaEventElapsedTime");
}

}  // extern "C"
