// HostRoom: tensors of a device that wait in pinned host memory until they are wanted again. Both ways are queued
// behind what is computed, so that the host never waits, and memory is reused when everything queued has passed it. On
// the cpu nothing is copied. Not for weights, which stay longer than a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "core/device/buffer.h"

namespace trireme {

class HostRoom {
 public:
  struct Kept {
    at::Tensor tensor;  // on the cpu; elsewhere without memory
    std::unique_ptr<PinnedBuffer> buffer = nullptr;
    std::vector<int64_t> shape = {};
  };
  // The caller gives its tensor up.
  Kept Keep(const at::Tensor& tensor);
  at::Tensor Bring(Kept kept);

 private:
  std::unique_ptr<PinnedBuffer> Take(size_t bytes);

  std::vector<std::unique_ptr<PinnedBuffer>> free_;
};

}  // namespace trireme
