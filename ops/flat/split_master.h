// An fp32 number as a bf16 one, rounded to the nearest (halves away from zero), and 16 further bits: the distance
// between the two as numbers of bits. What AdamW's kernels do in passing, here for whole tensors.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// values: bf16; low: int16, of the same size. The result is fp32.
at::Tensor JoinMaster(const at::Tensor& values, const at::Tensor& low);
void SplitMaster(const at::Tensor& master, const at::Tensor& values, const at::Tensor& low);

}  // namespace trireme
