// The host side of the dropout kernel. The mask follows from seed and place alone.
#pragma once

#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

// y = residual + x · [kept] / (1 - probability); a null residual: the dropout alone, which is its own
// gradient.
void DropoutAdd(const KernelPlace& place, Element element, const void* x, const void* residual, uint64_t size,
                uint32_t seed, float probability, void* y);

// Whether the element at `place` is kept: what the kernel draws, for who wants to know.
bool DropoutKeeps(uint64_t place, uint32_t seed, float probability);

}  // namespace trireme::ascendc
