// AWQ in its version gemm: LAYER.qweight [in, out / 8] and .qzeros [groups, out / 8] of 4 bits, whose order within a
// word is 0, 2, 4, 6, 1, 3, 5, 7, and .scales [groups, out]. Groups are of equally many inputs, in order.
#include <array>

#include "checkpoint/packed_format.h"
#include "checkpoint/packed_integers.h"
#include "core/base/error.h"

namespace trireme {
namespace {

enum AwqPart : size_t { kAwqWeight, kAwqZeros, kAwqScales };
constexpr int kAwqBits = 4;
constexpr int64_t kInWord = kWordBits / kAwqBits;
constexpr std::array<int64_t, 8> kPlaceInWord = {0, 4, 1, 5, 2, 6, 3, 7};  // of an output's element

struct AwqWeight : Dequantise {
  explicit AwqWeight(const PackedFormat::Parts& parts)
      : weights(Words(parts[kAwqWeight])),
        zeros(Words(parts[kAwqZeros])),
        words(parts[kAwqWeight].shape[1]),
        group_size(parts[kAwqWeight].shape[0] / parts[kAwqScales].shape[0]) {}
  int At(const uint32_t* rows, int64_t row, int64_t output) const {
    return Unpacked(rows + row * words + output / kInWord, kPlaceInWord[static_cast<size_t>(output % kInWord)],
                    kAwqBits);
  }
  int Element(int64_t output, int64_t input) const override { return At(weights, input, output); }
  int Zero(int64_t output, int64_t group) const override { return At(zeros, group, output); }
  int64_t Group(int64_t input) const override { return input / group_size; }
  int64_t ScaleIndex(int64_t output, int64_t group) const override { return group * words * kInWord + output; }

  const uint32_t *weights, *zeros;
  const int64_t words, group_size;
};

TensorView DescribeAwq(const PackedFormat::Parts& parts, const std::string& where) {
  CheckPart(parts[kAwqWeight], DType::kInt32, 2, where, "qweight");
  CheckPart(parts[kAwqZeros], DType::kInt32, 2, where, "qzeros");
  CheckScales(parts[kAwqScales], where);
  const int64_t inputs = parts[kAwqWeight].shape[0], words = parts[kAwqWeight].shape[1];
  const int64_t groups = parts[kAwqScales].shape[0];
  const Shape scales = {groups, words * kInWord}, zeros = {groups, words};
  if (groups == 0 || inputs % groups != 0 || parts[kAwqScales].shape != scales || parts[kAwqZeros].shape != zeros) {
    throw InputError(where, ": its qweight is ", ShapeText(parts[kAwqWeight].shape), ", its qzeros ",
                     ShapeText(parts[kAwqZeros].shape), " and its scales ", ShapeText(parts[kAwqScales].shape),
                     "; wanted [in, out / 8], [groups, out / 8] and [groups, out], with groups that divide the inputs");
  }
  return {parts[kAwqScales].dtype, {words * kInWord, inputs}, {}};
}

void DecodeAwq(const PackedFormat::Parts& parts, std::span<std::byte> target) {
  AwqWeight(parts).Run(parts[kAwqScales], parts[kAwqWeight].shape[1] * kInWord, parts[kAwqWeight].shape[0], target);
}

}  // namespace

PackedFormat AwqFormat() {
  return {.name = "awq",
          .endings = {".qweight", ".qzeros", ".scales"},
          .ending = ".weight",
          .describe = DescribeAwq,
          .decode = DecodeAwq};
}

}  // namespace trireme
