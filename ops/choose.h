// Which version of an operator runs: the loops of ops/cpu for CPU tensors of fp32 and bf16, torch_npu's fused
// one (npu_fused.h) or the AscendC kernel (ops/ascendc) on an npu, the AscendC kernel on the CPU for what the
// loops do not take, the ATen reference for everything else. Also the small bridge from tensors to the loops,
// which know no torch.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/cpu/simd.h"

namespace trireme {

// Whether the loops take this tensor: dense CPU memory of fp32 or bf16, and no ReferenceOnly alive.
bool FastOnCpu(const at::Tensor& tensor);

// In the order in which they are asked.
enum class Version { kLoops, kVendor, kKernel, kReference };
const char* NameOf(Version version);

// What an operator says of a case beside the tensor's own kind.
struct Against {
  std::string loops{};   // why the loops of ops/cpu decline; empty: they do not
  std::string kernel{};  // why the AscendC kernel declines
  std::string aten{};    // why the reference goes before the kernel, where kernels do not come first
  bool vendor = false;   // whether torch_npu has the operator
};

// The version that runs, and why those before it do not.
struct Declined {
  Version version;
  std::string why;
};
struct Choice {
  Version version = Version::kReference;
  std::vector<Declined> declined{};
};

// `op`: a name of OperatorNames(). A tensor that is not contiguous is the caller's to copy.
Choice Choose(const std::string& op, const at::Tensor& tensor, const Against& against = {});

// Whether a weight can be read as the input is: the same type, without gaps.
inline bool SameKind(const at::Tensor& input, const at::Tensor& weight) {
  return weight.scalar_type() == input.scalar_type() && weight.is_contiguous();
}

// Whether a ReferenceOnly is alive.
bool OnlyReference();

// While it lives, operators called on this thread take the reference: for tests and measurements.
class ReferenceOnly {
 public:
  ReferenceOnly();
  ~ReferenceOnly();
  ReferenceOnly(const ReferenceOnly&) = delete;
  ReferenceOnly& operator=(const ReferenceOnly&) = delete;

 private:
  bool outer_;
};

// While it lives, operators called on this thread take their AscendC kernel where that takes the tensor.
class KernelsFirst {
 public:
  KernelsFirst();
  ~KernelsFirst();
  KernelsFirst(const KernelsFirst&) = delete;
  KernelsFirst& operator=(const KernelsFirst&) = delete;

 private:
  bool outer_;
};

// Calls work(float{}) or work(cpu::Bf16{}), as the tensor's elements are.
template <typename Work>
void ByType(const at::Tensor& tensor, const Work& work) {
  if (tensor.scalar_type() == at::kFloat) {
    work(float{});
  } else {
    work(cpu::Bf16{});
  }
}

template <typename T>
T* Data(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.data_ptr());
}

// Rows of which a thread should get at least so many that waking it pays.
inline int64_t GrainOfRows(int64_t row_elements) { return std::max<int64_t>(1, 16384 / (row_elements + 1)); }

}  // namespace trireme
