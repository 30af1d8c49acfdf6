#include "parallel/layers/unit_rows.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace trireme {
namespace {

constexpr double kShortest = 1e-12;  // as torch's normalize
constexpr int64_t kBlock = 1024;     // rows that are fp32 at once

struct UnitBlock {  // of some rows
  at::Tensor rows, lengths;
};

UnitBlock UnitBlockOf(const at::Tensor& rows) {
  const at::Tensor wide = rows.to(at::kFloat);
  const at::Tensor lengths = (wide * wide).sum(1, /*keepdim=*/true).sqrt().clamp_min(kShortest);
  return {.rows = wide / lengths, .lengths = lengths};
}

}  // namespace

UnitRows::UnitRows(const Weight& weight, bool trained)
    : weight_(weight),
      unit_{.name = weight.name, .value = at::empty_like(weight.value), .gradient = {}, .stale = true} {
  for (int64_t begin = 0; begin < weight.value.size(0); begin += kBlock) {
    const int64_t size = std::min(kBlock, weight.value.size(0) - begin);
    unit_.value.narrow(0, begin, size).copy_(UnitBlockOf(weight.value.narrow(0, begin, size)).rows);
  }
  if (trained && weight.trained()) unit_.gradient = at::empty_like(weight.gradient);
}

void UnitRows::AddGradient() const {
  if (!unit_.trained() || unit_.stale) return;
  const at::Tensor sum = weight_.gradient_sum();
  for (int64_t begin = 0; begin < sum.size(0); begin += kBlock) {
    const int64_t size = std::min(kBlock, sum.size(0) - begin);
    const UnitBlock block = UnitBlockOf(weight_.value.narrow(0, begin, size));
    const at::Tensor gradient = unit_.gradient.narrow(0, begin, size);
    const at::Tensor along = (block.rows * gradient).sum(1, /*keepdim=*/true);
    sum.narrow(0, begin, size).add_((gradient - block.rows * along) / block.lengths);
  }
}

}  // namespace trireme
