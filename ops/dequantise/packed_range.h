// PackedRange: what an implementation of dequantise decodes, some of a packed weight's parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/tensor/packed_weight.h"

namespace trireme {

struct PackedRange {
  const PackedWeight& packed;
  int64_t begin = 0;  // element of the rank's tensor that `matrix` begins with; no part crosses its ends
  at::Tensor matrix;  // to be written: of the weight's type, contiguous, on its device

  // Calls work(part, element of `matrix` that the part begins with).
  template <typename Work>
  void ForEachPart(const Work& work) const {
    for (const PackedPart& part : packed.parts().parts) {
      const int64_t start = part.local_offset - begin;
      if (start >= 0 && start < matrix.numel()) work(part, start);
    }
  }
};

}  // namespace trireme
