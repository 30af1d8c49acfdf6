// What the framework needs from libtorch's CUDA side beyond ATen's interface. Implemented by a small library
// that links libtorch_cuda and is opened when device cuda is requested, so that the program itself starts on
// machines without CUDA libraries and reports there what is missing. No tensor and no ATen type in here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "acl/acl.h"

namespace trireme {

struct CudaMemory {  // of torch's caching allocator, bytes
  int64_t allocated = 0;
  int64_t reserved = 0;
  int64_t peak_allocated = 0;  // since the start or ResetPeak
  int64_t peak_reserved = 0;
  int64_t fresh_allocations = 0;  // how often the device was asked for memory
};

// Launches that were recorded together, with the memory that they use.
class CudaGraph {
 public:
  virtual ~CudaGraph() = default;
  // All of them, on the current stream.
  virtual void Replay() = 0;
};

class CudaBridge {
 public:
  virtual ~CudaBridge() = default;

  // The device that is current on this thread: ACL's provider and torch share CUDA's own notion of it.
  virtual int CurrentDevice() = 0;
  // The stream that operators of this thread go to. The provider's streams are CUDA streams, so it is also an
  // ACL stream.
  virtual aclrtStream CurrentStream() = 0;
  virtual std::string RuntimeVersion() = 0;  // "13.0"
  virtual int Capability() = 0;              // of the current device, ten times: 90 is Hopper

  // What `work` launches on this thread is recorded and not run: its tensors get memory, but no values until a
  // replay. It neither waits nor copies from the host, and everything that it launches has been launched before.
  // Graphs share their memory: one runs at a time, and its results are read before the next.
  virtual std::unique_ptr<CudaGraph> Record(const std::function<void()>& work) = 0;
  virtual bool recording() const = 0;

  virtual CudaMemory Memory(int device) = 0;
  virtual void ResetPeak(int device) = 0;
};

// The name under which the library exports its CudaBridge.
using CudaBridgeFunction = CudaBridge*();
inline constexpr const char* kCudaBridgeFunction = "trireme_cuda_bridge";

}  // namespace trireme
