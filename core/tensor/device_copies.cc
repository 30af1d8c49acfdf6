#include "core/tensor/device_copies.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "core/base/error.h"
#include "core/cuda/cuda.h"
#include "core/device/buffer.h"
#include "core/device/event.h"
#include "core/npu/npu.h"

namespace trireme {
namespace {

// Pinned memory for copies that are queued: a buffer is reused when the device has read it.
class Staging {
 public:
  void CopyToDevice(void* target, const void* source, size_t bytes, const Stream& stream) {
    std::lock_guard lock(mutex_);
    std::unique_ptr<Slot> slot = TakeSlot(bytes);
    std::memcpy(slot->buffer.data(), source, bytes);
    CopyAsync(target, slot->buffer.data(), bytes, CopyKind::kHostToDevice, stream);
    slot->read.Record(stream);
    slots_.push_back(std::move(slot));
  }

 private:
  struct Slot {
    explicit Slot(size_t bytes) : buffer(bytes) {}
    PinnedBuffer buffer;
    Event read;
  };

  // The oldest that is large enough, if it was read; else a new one. Sizes are powers of two, so that the
  // batches of a run share them.
  std::unique_ptr<Slot> TakeSlot(size_t bytes) {
    const auto large_enough = [&](const auto& slot) { return slot->buffer.bytes() >= bytes; };
    const auto found = std::ranges::find_if(slots_, large_enough);
    if (found != slots_.end() && (*found)->read.done()) {
      std::unique_ptr<Slot> slot = std::move(*found);
      slots_.erase(found);
      return slot;
    }
    constexpr size_t kLeast = 4096;
    return std::make_unique<Slot>(std::bit_ceil(std::max(bytes, kLeast)));
  }

  std::mutex mutex_;
  std::deque<std::unique_ptr<Slot>> slots_;  // in the order of their copies
};

// Never destroyed: torch_npu resets the device in an exit handler, after which no event can be destroyed.
Staging& TheStaging() {
  static Staging& staging = *new Staging;
  return staging;
}

}  // namespace

// A copy that is recorded would send what its pinned memory holds when it is replayed.
Stream ComputeStreamOf(const at::Device& device) {
  if (!device.is_cuda()) return Npu::Open(device.index()).Flushed();
  TRIREME_CHECK(!Cuda::Open().bridge().recording()) << "a pass that is recorded sends something to the device";
  return Cuda::Open().Flushed();
}

at::Tensor Upload(const at::Tensor& host, at::Device device) {
  TRIREME_CHECK(host.is_cpu());
  if (device.is_cpu() || host.numel() == 0) return host.to(device);
  at::Tensor target = at::empty(host.sizes(), host.options().device(device));
  UploadInto(host, target);
  return target;
}

void UploadInto(const at::Tensor& host, const at::Tensor& target) {
  TRIREME_CHECK(host.is_cpu() && target.is_contiguous() && host.nbytes() == target.nbytes());
  const at::Tensor source = host.contiguous();
  TheStaging().CopyToDevice(target.data_ptr(), source.data_ptr(), source.nbytes(), ComputeStreamOf(target.device()));
}

at::Tensor DownloadComputed(const at::Tensor& tensor) {
  if (!tensor.is_privateuseone()) return tensor.cpu();
  TRIREME_CHECK(tensor.is_contiguous()) << "a copy would have to be computed first";
  at::Tensor host = at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
  Copy(host.data_ptr(), tensor.data_ptr(), tensor.nbytes(), CopyKind::kDeviceToHost);
  return host;
}

}  // namespace trireme
