// The host side of the kernel gemm: products of matrices on cube cores. Torch-free; no operator uses it yet.
#pragma once

#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

struct GemmShape {
  uint64_t m, n, k;
  bool transposed_a = false;  // A is [k, m], otherwise [m, k]
  bool transposed_b = false;  // B is [n, k], as weights are, otherwise [k, n]
};

// How C is divided into blocks of whole fractals, and k into parts that different cores add.
struct GemmTiling {
  uint32_t blocks = 1;  // of the launch: cores that work
  uint32_t block_m = 16, block_n = 16, splits = 1;
};
// The tiling with the least predicted time on `cubes` cores: products and loads of the busiest one.
GemmTiling TileGemm(const GemmShape& shape, Element element, uint32_t cubes, bool may_split);

struct GemmOutput {
  void* c;                  // [m, n]
  bool fp32 = false;        // otherwise of the operands' type
  bool accumulate = false;  // added to what is there, which is fp32; only then is k split
};
// C = A B + bias (of n fp32 elements, or nullptr), summed in fp32. Throws if k is 0 or C cannot be added to.
void Gemm(const KernelPlace& place, Element element, const GemmShape& shape, const void* a, const void* b,
          const float* bias, const GemmOutput& out);
// With this tiling, which must fit; for tests and measurements.
void Gemm(const KernelPlace& place, Element element, const GemmShape& shape, const void* a, const void* b,
          const float* bias, const GemmOutput& out, const GemmTiling& tiling);

}  // namespace trireme::ascendc
