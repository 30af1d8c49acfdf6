// Implements bridge.h: the only file that includes torch's CUDA headers.
#include "core/cuda/bridge.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdlib>

namespace trireme {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

// In the array of statistics per block kind, the total over all kinds comes first, in every version of torch.
template <typename Statistics>
int64_t Current(const Statistics& statistics) {
  return statistics[0].current;
}
template <typename Statistics>
int64_t Peak(const Statistics& statistics) {
  return statistics[0].peak;
}

class TorchGraph : public CudaGraph {
 public:
  explicit TorchGraph(int& alive) : alive_(alive) { ++alive_; }
  ~TorchGraph() override { --alive_; }
  void Replay() override { graph.replay(); }

  at::cuda::CUDAGraph graph;

 private:
  int& alive_;
};

// Ends the capture of a graph also where the work threw: the stream would stay unusable.
class Capture {
 public:
  Capture(at::cuda::CUDAGraph& graph, at::cuda::MempoolId_t pool) : graph_(graph) {
    // Other threads may go on with calls that a capture in the global mode would forbid them.
    graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  }
  ~Capture() {
    if (ended_) return;
    try {
      graph_.capture_end();
    } catch (const std::exception&) {  // the work's own error is on its way
    }
    cudaGetLastError();
  }
  void End() {
    ended_ = true;
    graph_.capture_end();
  }

 private:
  at::cuda::CUDAGraph& graph_;
  bool ended_ = false;
};

class TorchCuda : public CudaBridge {
 public:
  int CurrentDevice() override { return c10::cuda::current_device(); }

  aclrtStream CurrentStream() override { return c10::cuda::getCurrentCUDAStream().stream(); }

  std::string RuntimeVersion() override {
    int version = 0;
    C10_CUDA_CHECK(cudaRuntimeGetVersion(&version));
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  }

  int Capability() override {
    int major = 0, minor = 0;
    const int device = c10::cuda::current_device();
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    return 10 * major + minor;
  }

  std::unique_ptr<CudaGraph> Record(const std::function<void()>& work) override {
    // torch gives a pool up with its last graph.
    if (graphs_ == 0) pool_ = at::cuda::graph_pool_handle();
    auto made = std::make_unique<TorchGraph>(graphs_);
    const c10::cuda::CUDAStream outer = c10::cuda::getCurrentCUDAStream();
    C10_CUDA_CHECK(cudaStreamSynchronize(outer.stream()));                  // what the work reads is there; rare
    const c10::cuda::CUDAStreamGuard side(c10::cuda::getStreamFromPool());  // the default stream cannot be captured
    const Flag flag(recording_);
    Capture capture(made->graph, pool_);
    work();
    capture.End();
    return made;
  }
  bool recording() const override { return recording_; }

  CudaMemory Memory(int device) override {
    const auto statistics = allocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
    return {.allocated = Current(statistics.allocated_bytes),
            .reserved = Current(statistics.reserved_bytes),
            .peak_allocated = Peak(statistics.allocated_bytes),
            .peak_reserved = Peak(statistics.reserved_bytes),
            .fresh_allocations = statistics.num_device_alloc};
  }

  void ResetPeak(int device) override { allocator::resetPeakStats(static_cast<c10::DeviceIndex>(device)); }

 private:
  struct Flag {
    explicit Flag(bool& flag) : flag(flag) { flag = true; }
    ~Flag() { flag = false; }
    bool& flag;
  };

  bool recording_ = false;
  at::cuda::MempoolId_t pool_ = {0, 0};
  int graphs_ = 0;  // alive
};

}  // namespace
}  // namespace trireme

extern "C" __attribute__((visibility("default"))) trireme::CudaBridge* trireme_cuda_bridge() {
  // torch then says of each wait of the host for the device where it was.
  if (std::getenv("CUDA_PROVIDER_SAY_WAITS") != nullptr) {
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_WARN);
  }
  static trireme::TorchCuda bridge;
  return &bridge;
}
