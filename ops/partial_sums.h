// Sums over tokens that are the same for any number of threads: rows are cut into fixed pieces, each piece is
// summed by one thread, and the pieces are added in order.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "ops/cpu/simd.h"

namespace trireme {

// Calls work(rows, sums) for pieces of [0, rows), where sums points to `size` zeros; returns their total,
// [size] fp32.
template <typename Work>
at::Tensor SumOverRows(int64_t rows, int64_t size, const Work& work) {
  constexpr int64_t kPiece = 64;  // rows: enough to hide the adding, few enough for many threads
  const int64_t pieces = (rows + kPiece - 1) / kPiece;
  const at::Tensor sums = at::zeros({std::max<int64_t>(pieces, 1), size}, at::TensorOptions(at::kFloat));
  float* data = static_cast<float*>(sums.data_ptr());
  at::parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      work(cpu::Rows{piece * kPiece, std::min(rows, (piece + 1) * kPiece)}, data + piece * size);
    }
  });
  for (int64_t piece = 1; piece < pieces; ++piece) {
    for (int64_t i = 0; i < size; ++i) data[i] += data[piece * size + i];
  }
  return sums[0];
}

}  // namespace trireme
