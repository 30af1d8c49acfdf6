#include "ops/gemm/ascendc.h"

#include <algorithm>

#include "aclrtlaunch_gemm.h"
#include "core/base/error.h"

namespace trireme::ascendc {
namespace {

constexpr uint64_t kSide = 16, kLargestBlock = 256, kResultBytes = 128 * 1024, kDeepBytes = 512;
constexpr uint32_t kTransposedA = 1, kTransposedB = 2, kHasBias = 4, kWideOutput = 8, kAccumulates = 16;
constexpr uint64_t kMostSplits = 16;

uint64_t CeilDiv(uint64_t x, uint64_t by) { return (x + by - 1) / by; }

// Cycles of the core with the most work: products or loads, whichever take longer, and the start of each block.
double CyclesOf(const GemmShape& s, Element element, const GemmTiling& t, uint32_t cubes) {
  constexpr double kLoadedBytes = 90, kStart = 1500;  // bytes a cycle from L2; a block's first load and last store
  const double bytes = BytesOf(element), depth = static_cast<double>(CeilDiv(s.k, t.splits));
  const double block_m = static_cast<double>(std::min<uint64_t>(t.block_m, s.m)),
               block_n = static_cast<double>(std::min<uint64_t>(t.block_n, s.n));
  const double products = block_m / kSide * block_n / kSide * depth / (32 / bytes),
               loads = (block_m + block_n) * depth * bytes / kLoadedBytes;
  const uint64_t items = CeilDiv(s.m, t.block_m) * CeilDiv(s.n, t.block_n) * t.splits;
  return static_cast<double>(CeilDiv(items, cubes)) * (std::max(products, loads) + kStart);
}

}  // namespace

GemmTiling TileGemm(const GemmShape& shape, Element element, uint32_t cubes, bool may_split) {
  const uint64_t tiles = CeilDiv(shape.k, kDeepBytes / BytesOf(element));
  GemmTiling best;
  double least = 0;
  for (const uint64_t m : {128, 256, 64, 16}) {
    for (const uint64_t n : {256, 128, 64, 16}) {
      for (uint64_t splits = 1; splits <= (may_split ? std::min(kMostSplits, tiles) : 1); splits *= 2) {
        const auto fitted = [](uint64_t block, uint64_t size) {
          return static_cast<uint32_t>(std::min(block, CeilDiv(size, kSide) * kSide));
        };
        GemmTiling t{1, fitted(m, shape.m), fitted(n, shape.n), static_cast<uint32_t>(splits)};
        if (t.block_m * t.block_n * sizeof(float) > kResultBytes) continue;
        const uint64_t items = CeilDiv(shape.m, t.block_m) * CeilDiv(shape.n, t.block_n) * splits;
        t.blocks = static_cast<uint32_t>(std::min<uint64_t>(items, cubes));
        const double cycles = CyclesOf(shape, element, t, cubes);
        if (least == 0 || cycles < least) best = t, least = cycles;
      }
    }
  }
  return best;
}

void Gemm(const KernelPlace& place, Element element, const GemmShape& shape, const void* a, const void* b,
          const float* bias, const GemmOutput& out) {
  const uint32_t cubes = std::max(place.cores / 2, 1u);  // a cube core has two vector cores beside it
  Gemm(place, element, shape, a, b, bias, out, TileGemm(shape, element, cubes, out.accumulate));
}

void Gemm(const KernelPlace& place, Element element, const GemmShape& shape, const void* a, const void* b,
          const float* bias, const GemmOutput& out, const GemmTiling& tiling) {
  const bool fp32 = out.fp32 || element == Element::kFloat;
  if (shape.k == 0) throw InputError("gemm with k = 0; it has nothing to add, fill the result instead");
  if (out.accumulate && !fp32) throw InputError("gemm adds to fp32 results only; set GemmOutput.fp32");
  if (tiling.splits > 1 && !out.accumulate)
    throw InputError("gemm with ", tiling.splits, " splits of k writes each of them; set GemmOutput.accumulate");
  TRIREME_CHECK(tiling.block_m % kSide == 0 && tiling.block_n % kSide == 0 && tiling.block_m <= kLargestBlock &&
                tiling.block_n <= kLargestBlock && tiling.splits <= CeilDiv(shape.k, kDeepBytes / BytesOf(element)));
  if (shape.m == 0 || shape.n == 0) return;
  const uint32_t flags = (shape.transposed_a ? kTransposedA : 0) | (shape.transposed_b ? kTransposedB : 0) |
                         (bias != nullptr ? kHasBias : 0) | (fp32 ? kWideOutput : 0) |
                         (out.accumulate ? kAccumulates : 0);
  Launched(ACLRT_LAUNCH_KERNEL(gemm)(tiling.blocks, place.stream, Address(a), Address(b), Address(bias), out.c,
                                     static_cast<uint32_t>(element), flags, Size32(shape.m, "rows"),
                                     Size32(shape.n, "columns"), Size32(shape.k, "a depth"), tiling.block_m,
                                     tiling.block_n, tiling.splits),
           "gemm");
}

}  // namespace trireme::ascendc
