// Parameter: a declaration with the Hugging Face tensors that hold its elements, and how it is initialised if
// there are no weights. Everything that reads or writes a model's weights uses this list. Opens no
// file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/packed_storage.h"
#include "core/plan/placement.h"

namespace trireme {

// A tensor of a Hugging Face directory: it fills `box` of the parameter, in the same order of elements, or
// with the box's last two dims swapped. Dims of one element may be missing in the file (one expert of a
// stack).
struct HfTensor {
  std::string name;
  Shape shape;  // in the file
  Box box;
  bool transposed = false;
  std::vector<std::string> repeated = {};  // names of further copies of the tensor in the files
};

struct Initial {
  enum class Kind { kNormal, kUniform, kOnes, kZeros, kConstant };
  Kind kind = Kind::kNormal;
  double deviation = 0.02;  // for a uniform distribution the largest magnitude, for a constant its value
};

struct Parameter {
  ParameterDeclaration declaration;
  std::vector<HfTensor> hf;
  Initial initial;
  bool trained = true;     // false: no gradient and no optimizer state
  bool added = false;      // not part of the model, such as a LoRA adapter: absent from a model's files
  bool is_buffer = false;  // small but precision-sensitive, as a router's correction bias: fp32 and not sharded
  std::optional<PackedStorage> packed = {};  // stored in 4 or 8 bits a weight; nullopt: in the type of the computation
  bool cast_to_fp8 = false;                  // stored so, and multiplied in e4m3
};

// One file tensor that is the whole parameter.
Parameter PlainParameter(ParameterDeclaration declaration, const std::string& hf_name, Initial initial = {});

// File tensors concatenated along dim 0: the blocks of a fused q|k|v or gate|up.
Parameter StackedParameter(ParameterDeclaration declaration, const std::vector<std::string>& hf_names,
                           Initial initial = {});

// One strided copy between a file tensor and a rank's local tensor; elements, not bytes.
struct SliceCopy {
  const HfTensor* source = nullptr;
  Shape extent;  // what is copied, dim by dim
  int64_t file_offset = 0;
  Shape file_strides;
  int64_t local_offset = 0;
  Shape local_strides;  // of the row-major local tensor
  int replica = 0;      // 0: this rank owns the elements
};

// The copies that fill a row-major tensor with `wanted`, a box of the parameter, from the file tensors that it is
// stored in.
std::vector<SliceCopy> BoxCopies(const std::vector<HfTensor>& stored, const Box& wanted);

// All copies that fill (or, in reverse, save) what `rank` holds. Padding is never copied.
std::vector<SliceCopy> SliceCopies(const Parameter& parameter, const Placement& placement, int rank);

}  // namespace trireme
