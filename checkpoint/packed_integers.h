// What formats of packed integers share: elements of a few bits in words of 32, and a scale of each group of inputs in
// fp16 or bf16, in which the decoded weight is, too.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "checkpoint/safetensors.h"

namespace trireme {

constexpr int kWordBits = 32;

inline const uint32_t* Words(const TensorView& view) { return reinterpret_cast<const uint32_t*>(view.bytes.data()); }

// Element `index` of `bits` each, from the low bits of the first word on.
inline int Unpacked(const uint32_t* words, int64_t index, int bits) {
  const int64_t per_word = kWordBits / bits;
  return static_cast<int>(words[index / per_word] >> (index % per_word * bits) & ((1u << bits) - 1));
}

// Refuses parts of another dtype or number of dims; `what`: of the part, for messages.
void CheckPart(const TensorView& part, DType dtype, size_t dims, const std::string& where, const char* what);
// Refuses scales that are not matrices of fp16 or bf16.
void CheckScales(const TensorView& scales, const std::string& where);

// (element - zero) · scale, in the scales' dtype.
struct Dequantise {
  virtual ~Dequantise() = default;
  virtual int Element(int64_t output, int64_t input) const = 0;
  virtual int Zero(int64_t output, int64_t group) const = 0;
  virtual int64_t Group(int64_t input) const = 0;
  virtual int64_t ScaleIndex(int64_t output, int64_t group) const = 0;

  // target: [outputs, inputs]
  void Run(const TensorView& scales, int64_t outputs, int64_t inputs, std::span<std::byte> target) const;
};

}  // namespace trireme
