// Copies between host and device during a step that do not make the host wait for what is queued on the
// device. Not for weights and checkpoints, whose copies are large and rare.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/device/stream.h"

namespace trireme {

// `host` on `device`, in the order of the computation there. On a device the values travel from pinned memory
// and the host goes on at once. On the cpu: `host` itself.
at::Tensor Upload(const at::Tensor& host, at::Device device);
// The same into memory that is there already, contiguous and of the same bytes; not for the cpu.
void UploadInto(const at::Tensor& host, const at::Tensor& target);

// What copies are queued on to come after everything that is computed there so far.
Stream ComputeStreamOf(const at::Device& device);

// A contiguous tensor that is known to be computed, because a call that came after it on the device is done:
// its copy on the host, which waits for no stream.
at::Tensor DownloadComputed(const at::Tensor& tensor);

}  // namespace trireme
