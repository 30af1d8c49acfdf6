// The dim orders of attention's tensors, as views in one order. What attention computes is not here.
#pragma once

#include <ATen/ATen.h>

#include <string>

namespace twin {

// A [b, n, s, d] view of a tensor in `layout` with `heads` heads, writable.
inline at::Tensor Inside(const at::Tensor& x, const std::string& layout, int64_t heads) {
  if (layout == "BNSD") return x;
  if (layout == "BSND") return x.transpose(1, 2);
  if (layout == "BSH") return x.unflatten(2, {heads, -1}).transpose(1, 2);
  if (layout == "SBH") return x.unflatten(2, {heads, -1}).permute({1, 2, 0, 3});
  TORCH_CHECK(false, "layout ", layout, " is not supported by the CANN twin; BNSD, BSND, BSH, SBH and TND are");
}

}  // namespace twin
