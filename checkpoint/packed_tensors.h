// Matrices in 4 and 8 bits as bitsandbytes writes them in safetensors files. 4 bits: beside the codes of `NAME` there
// are its scales
// (`NAME.absmax`), the values of codes (`NAME.quant_map`), with nested scales those of the scales, and as bytes of JSON
// what they mean (`NAME.quant_state.bitsandbytes__nf4`). 8 bits: beside the codes of `L.weight` the scales of its rows
// (`L.SCB`) and the order of its codes (`L.weight_format`). Knows no model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "core/packing/scales.h"
#include "core/plan/packed_storage.h"

namespace trireme {

struct PackedTensor {
  PackedStorage storage;
  Shape shape;                     // of the matrix
  DType dtype = DType::kBf16;      // that it decodes to; files in 8 bits do not say it
  std::span<const uint8_t> codes;  // in the file
  std::vector<float> scales = {};  // not nested
  NestedScales nested = {};
  std::vector<float> map = {};  // nested: values of the scales' codes
};

// The matrix to which a tensor belongs as one of these, other than its codes; nullopt: none.
std::optional<std::string> MatrixOfPart(const std::string& name);
// Whether it is the JSON of a matrix, or the scales of one in 8 bits: what tells that a matrix is packed.
bool IsPackedState(const std::string& name);

// What tells that the matrix of a part is packed, for messages of where it is missing.
std::string MissingState(const std::string& part);

// Of a matrix in 8 bits.
std::string Int8ScalesName(const std::string& matrix);
std::string Int8OrderName(const std::string& matrix);

// find: tensors of the directory by name, nullopt where it has none. Refuses a part that is missing or contradicts
// another.
using FindTensor = std::function<std::optional<TensorView>(const std::string& name)>;
PackedTensor ReadPackedTensor(const std::string& name, const std::string& state, const std::string& where,
                              const FindTensor& find);

// In the tensor's type.
void DecodeTensor(const PackedTensor& tensor, std::vector<std::byte>& bytes);

}  // namespace trireme
