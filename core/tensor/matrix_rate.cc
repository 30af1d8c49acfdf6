#include "core/tensor/matrix_rate.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "core/base/clock.h"
#include "core/tensor/dtype.h"

namespace trireme {
namespace {

// Seconds of the fastest of several runs.
template <typename Work>
double Best(const TensorDevice& device, int tries, Work work) {
  double best = std::numeric_limits<double>::infinity();
  device.Synchronize();
  for (int i = 0; i < tries; ++i) {
    const Clock::time_point start = Clock::now();
    work();
    device.Synchronize();
    best = std::min(best, SecondsSince(start));
  }
  return best;
}

// Random elements: a device that saves power on zeros and ones would appear faster than it is.
double BestMatMul(int64_t size, DType dtype, const TensorDevice& device, int tries) {
  const at::Tensor a = at::rand({size, size}, at::TensorOptions(at::kFloat).device(device.torch())).to(ToTorch(dtype)),
                   b = a.t().contiguous();
  at::Tensor product = at::empty_like(a);
  return Best(device, tries, [&] { at::mm_out(product, a, b); });
}

}  // namespace

double MeasureMatrixRate(DType dtype, const TensorDevice& device) {
  constexpr int kTries = 24;
  constexpr int64_t kSmallest = 1024, kLargest = 8192;
  constexpr double kLongEnough = 1e-3;  // seconds: the host's overhead per call becomes negligible
  double best = 0;
  for (int64_t size = kSmallest; size <= kLargest; size *= 2) {
    const double seconds = BestMatMul(size, dtype, device, kTries);
    const double edge = static_cast<double>(size);
    best = std::max(best, 2.0 * edge * edge * edge / seconds);
    if (seconds > kLongEnough) break;
  }
  return best;
}

double MeasureCopyRate(const TensorDevice& device) {
  constexpr int kTries = 8;
  constexpr int64_t kElements = 64 << 20;
  const at::Tensor from = at::ones({kElements}, at::TensorOptions(at::kFloat).device(device.torch()));
  const at::Tensor to = at::empty_like(from);
  const double seconds = Best(device, kTries, [&] { to.copy_(from); });
  return 2.0 * static_cast<double>(from.nbytes()) / seconds;
}

double MeasureReadRate(const TensorDevice& device) {
  constexpr int kTries = 8;
  constexpr int64_t kElements = 64 << 20;
  const at::Tensor all = at::ones({kElements}, at::TensorOptions(at::kFloat).device(device.torch()));
  const double seconds = Best(device, kTries, [&] { all.sum(); });
  return static_cast<double>(all.nbytes()) / seconds;
}

}  // namespace trireme
