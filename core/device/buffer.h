// Memory that frees itself: on the device, and pinned on the host (copies to and from other host
// memory are not truly asynchronous). Plain blocks; no pool and no tensor.
#pragma once

#include <cstddef>
#include <memory>

#include "acl/acl.h"
#include "core/device/stream.h"

namespace trireme {

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(size_t bytes);  // contents undefined; 0 bytes: no memory, data() is null

  void* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* data) const { static_cast<void>(aclrtFree(data)); }
  };
  std::unique_ptr<void, Free> data_;
  size_t bytes_ = 0;
};

class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(size_t bytes);

  void* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* data) const { static_cast<void>(aclrtFreeHost(data)); }
  };
  std::unique_ptr<void, Free> data_;
  size_t bytes_ = 0;
};

enum class CopyKind { kHostToDevice, kDeviceToHost, kDeviceToDevice };

// Done on return. Copying 0 bytes does nothing.
void Copy(void* target, const void* source, size_t bytes, CopyKind kind);
// Queued on the stream: both buffers must live until the copy has run.
void CopyAsync(void* target, const void* source, size_t bytes, CopyKind kind, const Stream& stream);
// Every byte of device memory becomes `value`.
void FillAsync(void* target, int value, size_t bytes, const Stream& stream);

}  // namespace trireme
