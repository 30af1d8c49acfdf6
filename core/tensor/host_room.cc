#include "core/tensor/host_room.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "core/tensor/device_copies.h"

namespace trireme {

std::unique_ptr<PinnedBuffer> HostRoom::Take(size_t bytes) {
  const auto found = std::ranges::find_if(free_, [&](const auto& buffer) { return buffer->bytes() >= bytes; });
  if (found == free_.end()) return std::make_unique<PinnedBuffer>(bytes);
  std::unique_ptr<PinnedBuffer> buffer = std::move(*found);
  free_.erase(found);
  return buffer;
}

HostRoom::Kept HostRoom::Keep(const at::Tensor& tensor) {
  if (tensor.is_cpu() || tensor.numel() == 0) return {.tensor = tensor};
  const at::Tensor whole = tensor.contiguous();
  std::unique_ptr<PinnedBuffer> buffer = Take(whole.nbytes());
  CopyAsync(buffer->data(), whole.data_ptr(), whole.nbytes(), CopyKind::kDeviceToHost, ComputeStreamOf(whole.device()));
  return {.tensor = at::empty({0}, whole.options()), .buffer = std::move(buffer), .shape = whole.sizes().vec()};
}

at::Tensor HostRoom::Bring(Kept kept) {
  if (!kept.buffer) return kept.tensor;
  at::Tensor tensor = at::empty(kept.shape, kept.tensor.options());
  CopyAsync(tensor.data_ptr(), kept.buffer->data(), tensor.nbytes(), CopyKind::kHostToDevice,
            ComputeStreamOf(tensor.device()));
  free_.push_back(std::move(kept.buffer));  // whoever takes it is queued behind this copy
  return tensor;
}

}  // namespace trireme
