// Weights in GPTQ, AWQ and compressed-tensors, packed here by the formats' rules from known elements, are decoded to
// (element - zero) · scale.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>

#include "checkpoint/hf_directory.h"
#include "checkpoint/safetensors_writer.h"
#include "tests/checkpoint/scratch.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kIn = 16, kOut = 8, kGroups = 2, kBits = 4, kInWord = 8;

int Element(int64_t output, int64_t input) { return static_cast<int>((output * 5 + input * 7 + output * input) % 16); }
int Zero(int64_t output, int64_t group) { return static_cast<int>((output * 3 + group * 5) % 14 + 1); }
float Scale(int64_t output, int64_t group) { return std::exp2(static_cast<float>((output + group) % 5) - 6); }  // exact

uint16_t Bf16(float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); }

void Put(std::vector<uint32_t>& words, int64_t word, int64_t place, int element) {
  words[static_cast<size_t>(word)] |= static_cast<uint32_t>(element) << (place * kBits);
}

class PackedIntegers : public testing::Test {
 protected:
  HfDirectory Directory(const std::string& config, const std::vector<TensorToWrite>& tensors) {
    const fs::path directory = scratch_.path() / "model";
    fs::create_directories(directory);
    std::ofstream(directory / "config.json") << R"({"quantization_config": )" << config << "}";
    WriteSafetensors(directory / "model.safetensors", tensors);
    return HfDirectory(directory);
  }
  static std::vector<uint16_t> Scales(bool by_output) {
    std::vector<uint16_t> scales;
    for (int64_t i = 0; i < kGroups * kOut; ++i) {
      scales.push_back(by_output ? Bf16(Scale(i / kGroups, i % kGroups)) : Bf16(Scale(i % kOut, i / kOut)));
    }
    return scales;
  }
  template <typename Group, typename ZeroOf>
  static void ExpectWeight(const HfDirectory& directory, const Group& group, const ZeroOf& zero) {
    ASSERT_EQ(directory.Names(), (std::vector<std::string>{"l.weight"}));
    const TensorView view = directory.Find("l.weight");
    ASSERT_EQ(view.shape, (Shape{kOut, kIn}));
    ASSERT_EQ(view.dtype, DType::kBf16);
    const auto* found = reinterpret_cast<const uint16_t*>(view.bytes.data());
    for (int64_t i = 0; i < kOut * kIn; ++i) {
      const int64_t output = i / kIn, input = i % kIn;
      const float wanted =
          static_cast<float>(Element(output, input) - zero(output, group(input))) * Scale(output, group(input));
      EXPECT_EQ(found[i], Bf16(wanted)) << output << ", " << input;
    }
  }

  Scratch scratch_;
};

// Inputs alternate between the groups.
class Gptq : public PackedIntegers, public testing::WithParamInterface<bool> {};

TEST_P(Gptq, IsPackedAlongTheInputs) {
  const bool second = GetParam();  // format: whose zeros are stored as they are
  std::vector<uint32_t> weights(kIn / kInWord * kOut), zeros(kGroups * kOut / kInWord);
  std::vector<int32_t> order;
  for (int64_t input = 0; input < kIn; ++input) {
    order.push_back(static_cast<int32_t>(input % kGroups));
    for (int64_t output = 0; output < kOut; ++output)
      Put(weights, input / kInWord * kOut + output, input % kInWord, Element(output, input));
  }
  for (int64_t i = 0; i < kGroups * kOut; ++i)
    Put(zeros, i / kInWord, i % kInWord, Zero(i % kOut, i / kOut) - (second ? 0 : 1));
  const std::vector<uint16_t> scales = Scales(false);
  const HfDirectory directory =
      Directory(second ? R"({"quant_method": "gptq", "checkpoint_format": "gptq_v2"})" : R"({"quant_method": "gptq"})",
                {{"l.g_idx", DType::kInt32, {kIn}, order.data()},
                 {"l.qweight", DType::kInt32, {kIn / kInWord, kOut}, weights.data()},
                 {"l.qzeros", DType::kInt32, {kGroups, kOut / kInWord}, zeros.data()},
                 {"l.scales", DType::kBf16, {kGroups, kOut}, scales.data()}});
  ExpectWeight(directory, [](int64_t input) { return input % kGroups; }, Zero);
}

INSTANTIATE_TEST_SUITE_P(Formats, Gptq, testing::Bool(), [](const auto& info) { return info.param ? "v2" : "v1"; });

TEST_F(PackedIntegers, OfAwqAreInTheirOwnOrder) {
  constexpr int64_t kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};  // which output a place of the word has
  std::vector<uint32_t> weights(kIn * kOut / kInWord), zeros(kGroups * kOut / kInWord);
  for (int64_t place = 0; place < kInWord; ++place) {
    for (int64_t input = 0; input < kIn; ++input) Put(weights, input, place, Element(kOrder[place], input));
    for (int64_t group = 0; group < kGroups; ++group) Put(zeros, group, place, Zero(kOrder[place], group));
  }
  const std::vector<uint16_t> scales = Scales(false);
  const HfDirectory directory =
      Directory(R"({"quant_method": "awq"})", {{"l.qweight", DType::kInt32, {kIn, kOut / kInWord}, weights.data()},
                                               {"l.qzeros", DType::kInt32, {kGroups, kOut / kInWord}, zeros.data()},
                                               {"l.scales", DType::kBf16, {kGroups, kOut}, scales.data()}});
  ExpectWeight(directory, [](int64_t input) { return input / (kIn / kGroups); }, Zero);
}

class Compressed : public PackedIntegers, public testing::WithParamInterface<bool> {};

TEST_P(Compressed, IsPackedAlongTheInputsOfEachOutput) {
  const bool symmetric = GetParam();
  std::vector<uint32_t> weights(kOut * kIn / kInWord), zeros(kOut / kInWord * kGroups);
  for (int64_t i = 0; i < kOut * kIn; ++i) Put(weights, i / kInWord, i % kInWord, Element(i / kIn, i % kIn));
  for (int64_t i = 0; i < kOut * kGroups; ++i)
    Put(zeros, i / kGroups / kInWord * kGroups + i % kGroups, i / kGroups % kInWord, Zero(i / kGroups, i % kGroups));
  const std::vector<uint16_t> scales = Scales(true);
  const std::vector<int64_t> shape = {kOut, kIn};
  std::vector<TensorToWrite> tensors = {{"l.weight_packed", DType::kInt32, {kOut, kIn / kInWord}, weights.data()},
                                        {"l.weight_scale", DType::kBf16, {kOut, kGroups}, scales.data()},
                                        {"l.weight_shape", DType::kInt64, {2}, shape.data()}};
  if (!symmetric) tensors.push_back({"l.weight_zero_point", DType::kInt32, {kOut / kInWord, kGroups}, zeros.data()});
  const HfDirectory directory = Directory(R"({"quant_method": "compressed-tensors"})", tensors);
  const auto zero = [&](int64_t output, int64_t group) { return symmetric ? 8 : Zero(output, group); };
  ExpectWeight(directory, [](int64_t input) { return input / (kIn / kGroups); }, zero);
}

INSTANTIATE_TEST_SUITE_P(Zeros, Compressed, testing::Bool(),
                         [](const auto& info) { return info.param ? "Symmetric" : "Asymmetric"; });

// Their zeros would end in the middle of a word, which the files do not have.
TEST_F(PackedIntegers, OfGptqFillWholeWords) {
  const std::vector<uint32_t> words(64);
  const std::vector<uint16_t> scales(64);
  const HfDirectory directory =
      Directory(R"({"quant_method": "gptq"})", {{"l.g_idx", DType::kInt32, {kIn}, words.data()},
                                                {"l.qweight", DType::kInt32, {kIn / kInWord, 12}, words.data()},
                                                {"l.qzeros", DType::kInt32, {kGroups, 1}, words.data()},
                                                {"l.scales", DType::kBf16, {kGroups, 12}, scales.data()}});
  EXPECT_NE(ErrorOf([&] { directory.Describe("l.weight"); }).find("its 12 outputs of 4 bits do not fill whole words"),
            std::string::npos);
}

TEST_F(PackedIntegers, WithPartsThatDoNotFitAreRefused) {
  const std::vector<uint32_t> words(64);
  const std::vector<uint16_t> scales(64);
  const HfDirectory directory =
      Directory(R"({"quant_method": "awq"})", {{"l.qweight", DType::kInt32, {kIn, kOut / kInWord}, words.data()},
                                               {"l.qzeros", DType::kInt32, {kGroups, kOut / kInWord}, words.data()},
                                               {"l.scales", DType::kBf16, {3, kOut}, scales.data()}});
  EXPECT_NE(ErrorOf([&] { directory.Describe("l.weight"); }).find("tensor 'l.weight' in awq: its qweight is [16, 1]"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
