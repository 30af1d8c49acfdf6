#include "core/tensor/matrix_rate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "core/tensor/dtype.h"

namespace trireme {

double MeasureMatrixRate(DType dtype, const TensorDevice& device) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t kSize = 1024;
  constexpr int kTries = 24;
  const at::Tensor a = at::ones({kSize, kSize}, at::TensorOptions(ToTorch(dtype)).device(device.torch())),
                   b = at::ones_like(a);
  at::Tensor product = at::empty_like(a);
  double best = 0;
  device.Synchronize();
  for (int i = 0; i < kTries; ++i) {
    const Clock::time_point start = Clock::now();
    at::mm_out(product, a, b);
    device.Synchronize();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::max(best, 2.0 * kSize * kSize * kSize / seconds);
  }
  return best;
}

}  // namespace trireme
