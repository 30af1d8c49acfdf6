// Parameter: a declaration with the Hugging Face tensors that hold its elements, and how it is filled where
// there are no weights. Everything that reads or writes a model's weights works from this one list. Opens no
// file.
#pragma once

#include <string>
#include <vector>

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
  std::vector<std::string> repeated = {};  // names under which files have the same tensor once more
};

struct Initial {
  enum class Kind { kNormal, kUniform, kOnes, kZeros };
  Kind kind = Kind::kNormal;
  double deviation = 0.02;  // of a uniform one the largest magnitude
};

struct Parameter {
  ParameterDeclaration declaration;
  std::vector<HfTensor> hf;
  Initial initial;
  bool trained = true;  // false: no gradient and no optimizer state
  bool added = false;   // beside the model's own, such as a low-rank pair: a model's files do not have it
  bool steers =
      false;  // few numbers that need their precision, as a router's correction bias: fp32 and whole
};

// One file tensor that is the whole parameter.
Parameter PlainParameter(ParameterDeclaration declaration, const std::string& hf_name, Initial initial = {});

// File tensors that lie one after the other along dim 0: the blocks of a fused q|k|v or gate|up.
Parameter StackedParameter(ParameterDeclaration declaration, const std::vector<std::string>& hf_names,
                           Initial initial = {});

// One run of copying between a file tensor and a rank's local tensor; elements, not bytes.
struct SliceCopy {
  const HfTensor* source = nullptr;
  Shape extent;  // what is copied, dim by dim
  int64_t file_offset = 0;
  Shape file_strides;
  int64_t local_offset = 0;
  Shape local_strides;  // of the row-major local tensor
  int replica = 0;      // 0: this rank owns the elements
};

// All copies that fill (or, the other way round, save) what `rank` holds. Padding is nobody's.
std::vector<SliceCopy> SliceCopies(const Parameter& parameter, const Placement& placement, int rank);

}  // namespace trireme
