// Element-wise reductions over any number of sources at once. Knows nothing of ranks, buffers or links.
//
// Rules: sources are combined in the order given; bf16 and fp16 are accumulated in fp32 and rounded once, to
// nearest even, at the end; integers wrap; max and min return NaN if any source is NaN, so that no rank's NaN
// goes unnoticed.
#pragma once

#include <cstddef>

#include "hccl/hccl.h"

namespace twin {

// True if the reduction exists for the type: int8, int16, int32, int64, fp16, fp32, bf16; prod not for int16,
// bf16.
bool ReductionSupported(HcclDataType type, HcclReduceOp op);

// dst[i] = op over s of sources[s][i], for `count` elements. `dst` may be one of the sources. Pointers need
// not be aligned.
void Reduce(HcclDataType type, HcclReduceOp op, void* dst, const void* const* sources, size_t source_count,
            size_t count);

}  // namespace twin
