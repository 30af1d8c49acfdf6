#include "ops/gradient_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "ops/choose.h"
#include "ops/cpu/flat.h"

namespace trireme {

double SumOfSquares(const at::Tensor& values) {
  TRIREME_CHECK(values.scalar_type() == at::kFloat && values.is_contiguous());
  if (!FastOnCpu(values)) {
    const double norm = values.norm().item<double>();
    return norm * norm;
  }
  constexpr int64_t kPiece = 65536;
  const int64_t count = values.numel(), pieces = (count + kPiece - 1) / kPiece;
  std::vector<double> sums(static_cast<size_t>(pieces));
  at::parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      sums[static_cast<size_t>(piece)] =
          cpu::SumOfSquares(Data<float>(values), {piece * kPiece, std::min(count, (piece + 1) * kPiece)});
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace trireme
