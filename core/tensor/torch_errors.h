// Converts what libtorch and torch_npu throw into our errors: one line instead of a stack trace, and for
// exhausted memory what to do about it.
#pragma once

#include <functional>

namespace trireme {

void WithTorchErrors(const std::function<void()>& work);

}  // namespace trireme
