#include "ops/flat/ascendc.h"

#include "aclrtlaunch_adamw.h"
#include "aclrtlaunch_add_into.h"
#include "aclrtlaunch_scale_values.h"
#include "aclrtlaunch_sum_of_squares.h"

namespace trireme::ascendc {

namespace {

uint32_t High(uint64_t size) { return static_cast<uint32_t>(size >> 32); }
uint32_t Low(uint64_t size) { return static_cast<uint32_t>(size); }

}  // namespace

void AdamW(const KernelPlace& place, Element element, const AdamWState& s, uint64_t size, const AdamWFactors& f) {
  if (size == 0) return;
  const Tiling tiling = TileFlat(size, 28, place);
  Launched(
      ACLRT_LAUNCH_KERNEL(adamw)(tiling.blocks, place.stream, s.master, s.exp_avg, s.exp_avg_sq, Address(s.gradient),
                                 s.parameter, static_cast<uint32_t>(element), High(size), Low(size), tiling.tile,
                                 s.parameter != nullptr ? 1 : 0, f.decay, f.beta1, f.one_minus_beta1, f.beta2,
                                 f.one_minus_beta2, f.step_size, f.inverse_correction, f.eps, f.gradient_scale),
      "adamw");
}

uint32_t SumOfSquaresBlocks(const KernelPlace& place, uint64_t size) { return TileFlat(size, 12, place).blocks; }

void SumOfSquares(const KernelPlace& place, Element element, const void* values, uint64_t size, float* sums) {
  const Tiling tiling = TileFlat(size, 12, place);
  Launched(ACLRT_LAUNCH_KERNEL(sum_of_squares)(tiling.blocks, place.stream, Address(values), sums,
                                               static_cast<uint32_t>(element), High(size), Low(size), tiling.tile),
           "sum_of_squares");
}

void Scale(const KernelPlace& place, Element element, void* values, uint64_t size, float factor) {
  if (size == 0) return;
  const Tiling tiling = TileFlat(size, 20, place);
  Launched(ACLRT_LAUNCH_KERNEL(scale_values)(tiling.blocks, place.stream, values, static_cast<uint32_t>(element),
                                             High(size), Low(size), tiling.tile, factor),
           "scale_values");
}

void AddInto(const KernelPlace& place, Element element, float* sum, const void* addend, uint64_t size) {
  if (size == 0) return;
  const Tiling tiling = TileFlat(size, 20, place);
  Launched(ACLRT_LAUNCH_KERNEL(add_into)(tiling.blocks, place.stream, sum, Address(addend),
                                         static_cast<uint32_t>(element), High(size), Low(size), tiling.tile),
           "add_into");
}

}  // namespace trireme::ascendc
