// compressed-tensors in its format pack-quantized: LAYER.weight_packed [out, in · bits / 32], whose elements are stored
// with half of their range added, .weight_scale [out, groups], .weight_shape with the sizes of both dims, where the
// weight is not symmetric .weight_zero_point [out · bits / 32, groups], and where inputs are in another order
// .weight_g_idx [in], the group of each.
#include "checkpoint/packed_format.h"
#include "checkpoint/packed_integers.h"
#include "core/base/error.h"

namespace trireme {
namespace {

enum CompressedPart : size_t { kPacked, kScale, kStoredShape, kZeroPoint, kOrder };

Shape ShapeIn(const PackedFormat::Parts& parts) {
  const auto* sizes = reinterpret_cast<const int64_t*>(parts[kStoredShape].bytes.data());
  return {sizes[0], sizes[1]};
}

int64_t WordsOf(int64_t elements, int64_t bits) { return (elements * bits + kWordBits - 1) / kWordBits; }

// Of the two that are supported; 0: neither.
int CompressedBits(const PackedFormat::Parts& parts) {
  const int64_t inputs = ShapeIn(parts)[1], words = parts[kPacked].shape[1];
  return words == WordsOf(inputs, 4) ? 4 : words == WordsOf(inputs, 8) ? 8 : 0;
}

struct CompressedWeight : Dequantise {
  explicit CompressedWeight(const PackedFormat::Parts& parts)
      : bits(CompressedBits(parts)),
        groups(parts[kScale].shape[1]),
        words(parts[kPacked].shape[1]),
        group_size((ShapeIn(parts)[1] + groups - 1) / groups),
        weights(Words(parts[kPacked])),
        zeros(parts.Has(kZeroPoint) ? Words(parts[kZeroPoint]) : nullptr),
        order(parts.Has(kOrder) ? reinterpret_cast<const int32_t*>(parts[kOrder].bytes.data()) : nullptr) {}
  int Element(int64_t output, int64_t input) const override { return Unpacked(weights + output * words, input, bits); }
  // Of elements with half of their range added.
  int Zero(int64_t output, int64_t group) const override {
    if (zeros == nullptr) return 1 << (bits - 1);
    const int64_t per_word = kWordBits / bits;
    return Unpacked(zeros + output / per_word * groups + group, output % per_word, bits);
  }
  int64_t Group(int64_t input) const override { return order != nullptr ? order[input] : input / group_size; }
  int64_t ScaleIndex(int64_t output, int64_t group) const override { return output * groups + group; }

  const int bits;
  const int64_t groups, words, group_size;
  const uint32_t *weights, *zeros;
  const int32_t* order;
};

void CheckOptional(const PackedFormat::Parts& parts, const Shape& shape, int bits, const std::string& where) {
  const int64_t groups = parts[kScale].shape[1];
  if (parts.Has(kZeroPoint)) {
    CheckPart(parts[kZeroPoint], DType::kInt32, 2, where, "weight_zero_point");
    const Shape wanted = {WordsOf(shape[0], bits), groups};
    if (parts[kZeroPoint].shape != wanted)
      throw InputError(where, ": its weight_zero_point is ", ShapeText(parts[kZeroPoint].shape), "; wanted ",
                       ShapeText(wanted));
  }
  if (!parts.Has(kOrder)) return;
  CheckPart(parts[kOrder], DType::kInt32, 1, where, "weight_g_idx");
  const auto* order = reinterpret_cast<const int32_t*>(parts[kOrder].bytes.data());
  for (int64_t input = 0; input < parts[kOrder].shape[0]; ++input) {
    if (parts[kOrder].shape[0] == shape[1] && order[input] >= 0 && order[input] < groups) continue;
    throw InputError(where, ": its weight_g_idx of ", parts[kOrder].shape[0], " has ", order[input], " for input ",
                     input, "; it has ", shape[1], " inputs and ", groups, " groups of scales");
  }
}

TensorView DescribeCompressed(const PackedFormat::Parts& parts, const std::string& where) {
  CheckPart(parts[kPacked], DType::kInt32, 2, where, "weight_packed");
  CheckPart(parts[kStoredShape], DType::kInt64, 1, where, "weight_shape");
  CheckScales(parts[kScale], where);
  const bool two = parts[kStoredShape].shape[0] == 2;
  const Shape shape = two ? ShapeIn(parts) : Shape{0, 0};
  const int bits = two ? CompressedBits(parts) : 0;
  const int64_t groups = parts[kScale].shape[1];
  if (bits == 0 || parts[kPacked].shape[0] != shape[0] || parts[kScale].shape[0] != shape[0] || groups == 0 ||
      (shape[1] + groups - 1) / groups * groups - shape[1] >= groups) {
    throw InputError(where, ": its weight_packed is ", ShapeText(parts[kPacked].shape), " and its weight_scale ",
                     ShapeText(parts[kScale].shape), " for a weight of ", ShapeText(shape),
                     "; wanted elements of 4 or 8 bits and scales of [out, groups]");
  }
  CheckOptional(parts, shape, bits, where);
  return {parts[kScale].dtype, shape, {}};
}

void DecodeCompressed(const PackedFormat::Parts& parts, std::span<std::byte> target) {
  const Shape shape = ShapeIn(parts);
  CompressedWeight(parts).Run(parts[kScale], shape[0], shape[1], target);
}

}  // namespace

PackedFormat CompressedTensorsFormat() {
  return {.name = "compressed-tensors",
          .endings = {".weight_packed", ".weight_scale", ".weight_shape", ".weight_zero_point", ".weight_g_idx"},
          .ending = ".weight",
          .describe = DescribeCompressed,
          .decode = DecodeCompressed};
}

}  // namespace trireme
