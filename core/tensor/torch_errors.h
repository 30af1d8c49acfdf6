// What libtorch and torch_npu throw, as errors of ours: one line instead of a page of stack, and for memory
// that ran out what can be done.
#pragma once

#include <functional>

namespace trireme {

void WithTorchErrors(const std::function<void()>& work);

}  // namespace trireme
