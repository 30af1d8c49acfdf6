// Rotary position embedding: pairs of a head's elements (first half with second half, as Hugging Face orders
// them) rotated by an angle that grows with the position.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace trireme {

struct RotaryTable {
  at::Tensor cosine;  // [tokens, rotary_dim / 2], fp32
  at::Tensor sine;
};

// positions: [tokens] int64; frequencies: radians per position.
RotaryTable MakeRotaryTable(const at::Tensor& positions, const std::vector<double>& frequencies);

// x: [tokens, heads, head_dim]; the first rotary_dim elements of head_dim are rotated.
at::Tensor Rotate(const at::Tensor& x, const RotaryTable& table);

}  // namespace trireme
