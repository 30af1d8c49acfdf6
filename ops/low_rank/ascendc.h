// The host side of the low-rank kernels. Low-rank matrices are stored as [rank, columns]; `low` is
// [rows, rank] in fp32.
#pragma once

#include "ops/ascendc/tiling.h"

namespace trireme::ascendc {

struct LoraShape {
  uint64_t rows, columns, rank;
  float scale = 1;
};

// Why the kernels do not support this rank; null if they do.
const char* WhyNotLora(const LoraShape& shape);

// low[t, r] = scale · <x[t], matrix[r]>
void LoraShrink(const KernelPlace& place, Element element, const void* x, const void* matrix, const LoraShape& shape,
                float* low);
// y[t] = base[t] + scale · Σ_r low[t, r] · matrix[r]; a null base means zeros; base may be y itself.
void LoraExpand(const KernelPlace& place, Element element, const float* low, const void* matrix, const void* base,
                const LoraShape& shape, void* y);
// gradient[r] (fp32) += scale · Σ_t low[t, r] · x[t]
void LoraGradient(const KernelPlace& place, Element element, const float* low, const void* x, const LoraShape& shape,
                  float* gradient);

}  // namespace trireme::ascendc
