// Converts what libtorch and torch_npu throw into our errors: one line instead of a stack trace, and for
// exhausted memory what to do about it.
#pragma once

#include <cstdint>
#include <functional>

namespace trireme {

// planned: bytes of this rank's device memory that the command knows to need; 0: it has no plan.
void WithTorchErrors(const std::function<void()>& work, int64_t planned = 0);

}  // namespace trireme
