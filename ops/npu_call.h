// torch_npu's operators, called by name through ATen's dispatcher: no header and no symbol of torch_npu is
// needed. An operator's calls are in its npu.cc; the autograd rules are in its own file.
#pragma once

#include <ATen/core/stack.h>

namespace trireme::npu {

// The results, in the order of the operator's schema.
torch::jit::Stack Call(const char* name, torch::jit::Stack arguments);

}  // namespace trireme::npu
