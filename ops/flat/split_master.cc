#include "ops/flat/split_master.h"

#include <ATen/ATen.h>

namespace trireme {
namespace {

constexpr int32_t kHalf = 1 << 15, kOne = 1 << 16;  // of the last bit of a bf16 number

}  // namespace

at::Tensor JoinMaster(const at::Tensor& values, const at::Tensor& low) {
  return values.view(at::kShort).to(at::kInt).mul_(kOne).add_(low).view(at::kFloat);
}

void SplitMaster(const at::Tensor& master, const at::Tensor& values, const at::Tensor& low) {
  const at::Tensor bits = master.view(at::kInt);
  const at::Tensor high = bits.add(kHalf).bitwise_right_shift_(16);
  values.view(at::kShort).copy_(high);
  low.copy_(bits - high * kOne);
}

}  // namespace trireme
