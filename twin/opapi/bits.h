// Dropout masks: one bit per element, in memory order, the lowest bit of a byte first, 1 for a kept element.
// Which elements are kept is not decided here.
#pragma once

#include <ATen/ATen.h>

namespace twin {

// Packs `kept` [n] of bool into `mask` [ceil(n / 128) * 16] of uint8.
inline void PackBits(const at::Tensor& kept, const at::Tensor& mask) {
  mask.zero_();
  const bool* bits = kept.const_data_ptr<bool>();
  uint8_t* bytes = mask.mutable_data_ptr<uint8_t>();
  for (int64_t i = 0; i < kept.numel(); ++i) bytes[i / 8] |= static_cast<uint8_t>(bits[i]) << (i % 8);
}

// `count` elements starting at element `begin`, as [count] of bool.
inline at::Tensor UnpackBits(const at::Tensor& mask, int64_t begin, int64_t count) {
  TORCH_CHECK(mask.numel() * 8 >= begin + count, "the dropout mask has ", mask.numel() * 8, " bits; wanted ",
              begin + count);
  at::Tensor kept = at::empty({count}, at::kBool);
  const uint8_t* bytes = mask.const_data_ptr<uint8_t>();
  bool* bits = kept.mutable_data_ptr<bool>();
  for (int64_t i = 0, at = begin; i < count; ++i, ++at) bits[i] = (bytes[at / 8] >> (at % 8)) & 1;
  return kept;
}

}  // namespace twin
