#include "checkpoint/packed_integers.h"

#include <vector>

#include "checkpoint/elements.h"
#include "core/base/error.h"

namespace trireme {

void CheckPart(const TensorView& part, DType dtype, size_t dims, const std::string& where, const char* what) {
  if (part.dtype == dtype && part.shape.size() == dims) return;
  throw InputError(where, ": its ", what, " is ", ShapeText(part.shape), " in ", Name(part.dtype), "; wanted ", dims,
                   " dims in ", Name(dtype));
}

void CheckScales(const TensorView& scales, const std::string& where) {
  const bool narrow = scales.dtype == DType::kFp16 || scales.dtype == DType::kBf16;
  if (narrow && scales.shape.size() == 2) return;
  throw InputError(where, ": its scales are ", ShapeText(scales.shape), " in ", Name(scales.dtype),
                   "; wanted two dims in fp16 or bf16");
}

void Dequantise::Run(const TensorView& scales, int64_t outputs, int64_t inputs, std::span<std::byte> target) const {
  std::vector<float> factors(static_cast<size_t>(Elements(scales.shape))), row(static_cast<size_t>(inputs));
  Convert(scales.dtype, scales.bytes.data(), DType::kFp32, factors.data(), factors.size());
  for (int64_t output = 0; output < outputs; ++output) {
    for (int64_t input = 0; input < inputs; ++input) {
      const int64_t group = Group(input);
      const float scale = factors[static_cast<size_t>(ScaleIndex(output, group))];
      row[static_cast<size_t>(input)] = static_cast<float>(Element(output, input) - Zero(output, group)) * scale;
    }
    Convert(DType::kFp32, row.data(), scales.dtype, target.data() + output * inputs * ByteSize(scales.dtype),
            row.size());
  }
}

}  // namespace trireme
