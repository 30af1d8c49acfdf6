// GPTQ: LAYER.qweight [in · bits / 32, out] packed along the inputs, .qzeros [groups, out · bits / 32] packed along the
// outputs, .scales [groups, out], .g_idx [in], the group of each input. Stored zeros are one less than they mean,
// except in the format that config.json calls gptq_v2.
#include "checkpoint/packed_format.h"
#include "checkpoint/packed_integers.h"
#include "core/base/error.h"
#include "core/base/json.h"

namespace trireme {
namespace {

enum GptqPart : size_t { kQweight, kQzeros, kGptqScales, kGroupIndex };

int BitsOf(const PackedFormat::Parts& parts) {
  return static_cast<int>(parts[kQweight].shape[0] * kWordBits / parts[kGroupIndex].shape[0]);
}

struct GptqWeight : Dequantise {
  explicit GptqWeight(const PackedFormat::Parts& parts)
      : bits(BitsOf(parts)),
        outputs(parts[kQweight].shape[1]),
        weights(Words(parts[kQweight])),
        zeros(Words(parts[kQzeros])),
        groups(reinterpret_cast<const int32_t*>(parts[kGroupIndex].bytes.data())),
        zero_words(parts[kQzeros].shape[1]) {
    const Json config =
        parts.quantisation_config.empty() ? Json() : ParseJson(parts.quantisation_config, "quantization_config");
    const Json format = config.is_object() ? config.value("checkpoint_format", Json()) : Json();
    added = format == "gptq_v2" ? 0 : 1;
  }
  int Element(int64_t output, int64_t input) const override {
    const int64_t per_word = kWordBits / bits;
    return Unpacked(weights + input / per_word * outputs + output, input % per_word, bits);
  }
  int Zero(int64_t output, int64_t group) const override {
    return Unpacked(zeros + group * zero_words, output, bits) + added;
  }
  int64_t Group(int64_t input) const override { return groups[input]; }
  int64_t ScaleIndex(int64_t output, int64_t group) const override { return group * outputs + output; }

  const int bits;
  const int64_t outputs;
  const uint32_t *weights, *zeros;
  const int32_t* groups;
  const int64_t zero_words;
  int added = 1;
};

void CheckGroups(const PackedFormat::Parts& parts, const std::string& where) {
  const auto* groups = reinterpret_cast<const int32_t*>(parts[kGroupIndex].bytes.data());
  const int64_t count = parts[kGptqScales].shape[0];
  for (int64_t input = 0; input < parts[kGroupIndex].shape[0]; ++input) {
    if (groups[input] >= 0 && groups[input] < count) continue;
    throw InputError(where, ": its g_idx has ", groups[input], " for input ", input, "; it has ", count,
                     " groups of scales");
  }
}

TensorView DescribeGptq(const PackedFormat::Parts& parts, const std::string& where) {
  CheckPart(parts[kQweight], DType::kInt32, 2, where, "qweight");
  CheckPart(parts[kQzeros], DType::kInt32, 2, where, "qzeros");
  CheckPart(parts[kGroupIndex], DType::kInt32, 1, where, "g_idx");
  CheckScales(parts[kGptqScales], where);
  const int64_t inputs = parts[kGroupIndex].shape[0], outputs = parts[kQweight].shape[1];
  const int64_t bits = inputs == 0 ? 0 : parts[kQweight].shape[0] * kWordBits / inputs;
  if ((bits != 2 && bits != 4 && bits != 8) || parts[kQweight].shape[0] * kWordBits != inputs * bits) {
    throw InputError(where, ": its qweight of ", parts[kQweight].shape[0], " rows does not hold ", inputs,
                     " inputs in 2, 4 or 8 bits each");
  }
  if (outputs * bits % kWordBits != 0) {
    throw InputError(where, ": its ", outputs, " outputs of ", bits, " bits do not fill whole words of ", kWordBits,
                     " bits, in which its qzeros are; the files are damaged, or of another format");
  }
  const int64_t groups = parts[kGptqScales].shape[0];
  const Shape scales = {groups, outputs}, zeros = {groups, outputs * bits / kWordBits};
  if (parts[kGptqScales].shape != scales || parts[kQzeros].shape != zeros) {
    throw InputError(where, ": its scales are ", ShapeText(parts[kGptqScales].shape), " and its qzeros ",
                     ShapeText(parts[kQzeros].shape), "; wanted ", ShapeText(scales), " and ", ShapeText(zeros));
  }
  CheckGroups(parts, where);
  return {parts[kGptqScales].dtype, {outputs, inputs}, {}};
}

void DecodeGptq(const PackedFormat::Parts& parts, std::span<std::byte> target) {
  GptqWeight(parts).Run(parts[kGptqScales], parts[kQweight].shape[1], parts[kGroupIndex].shape[0], target);
}

}  // namespace

PackedFormat GptqFormat() {
  return {.name = "gptq",
          .endings = {".qweight", ".qzeros", ".scales", ".g_idx"},
          .ending = ".weight",
          .describe = DescribeGptq,
          .decode = DecodeGptq};
}

}  // namespace trireme
