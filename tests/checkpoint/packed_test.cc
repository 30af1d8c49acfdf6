// Packed weights of a directory appear under the plain tensors' names and decoded; the parts do not appear; parts that
// do not fit together are refused.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>

#include "checkpoint/convert.h"
#include "checkpoint/grown_weights.h"
#include "checkpoint/hf_directory.h"
#include "checkpoint/safetensors_writer.h"
#include "core/base/file.h"
#include "tests/checkpoint/scratch.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class PackedWeights : public testing::Test {
 protected:
  // One expert of three outputs and 32 inputs, one group each.
  fs::path Mxfp4(const Shape& scales_shape = {1, 3, 1}) {
    for (int64_t i = 0; i < 48; ++i) blocks_.push_back(static_cast<uint8_t>(i * 37 + 5));
    scales_ = {127, 120, 130};
    const fs::path directory = scratch_.path() / "model";
    fs::create_directories(directory);
    std::ofstream(directory / "config.json")
        << R"({"model_type": "x", "quantization_config": {"quant_method": "mxfp4"}})";
    WriteSafetensors(directory / "model.safetensors",
                     {{"e.down_proj_bias", DType::kFp32, {1}, kOne},
                      {"e.down_proj_blocks", DType::kUint8, {1, 3, 1, 16}, blocks_.data()},
                      {"e.down_proj_scales", DType::kUint8, scales_shape, scales_.data()}});
    return directory;
  }
  float Value(int64_t output, int64_t input) const {
    static constexpr float kSizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const uint8_t pair = blocks_[static_cast<size_t>(output * 16 + input / 2)];
    const int code = input % 2 == 0 ? pair & 15 : pair >> 4;
    const float size = kSizes[code & 7] * std::exp2(static_cast<float>(scales_[static_cast<size_t>(output)]) - 127);
    return (code & 8) != 0 ? -size : size;
  }

  static constexpr float kOne[] = {1};
  std::vector<uint8_t> blocks_, scales_;
  Scratch scratch_;
};

TEST_F(PackedWeights, OfMxfp4AreTheScaledValuesOfTheirCodesWithDimsSwapped) {
  const HfDirectory directory(Mxfp4());
  EXPECT_EQ(directory.Names(), (std::vector<std::string>{"e.down_proj", "e.down_proj_bias"}));
  EXPECT_FALSE(directory.Has("e.down_proj_blocks"));
  EXPECT_TRUE(directory.has_packed());
  const TensorView view = directory.Find("e.down_proj");
  EXPECT_EQ(view.dtype, DType::kBf16);
  ASSERT_EQ(view.shape, (Shape{1, 32, 3}));
  const auto* bits = reinterpret_cast<const uint16_t*>(view.bytes.data());
  for (int64_t input = 0; input < 32; ++input) {
    for (int64_t output = 0; output < 3; ++output) {
      const float found = std::bit_cast<float>(uint32_t{bits[input * 3 + output]} << 16);
      EXPECT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(Value(output, input)))
          << input << ", " << output;
    }
  }
}

TEST_F(PackedWeights, AreListedAsStoredOnRequest) {
  const HfDirectory directory(Mxfp4(), HfDirectory::Packed::kAsStored);
  EXPECT_EQ(directory.Names(),
            (std::vector<std::string>{"e.down_proj_bias", "e.down_proj_blocks", "e.down_proj_scales"}));
}

TEST_F(PackedWeights, AreWrittenPlain) {
  const fs::path target = scratch_.path() / "to";
  ImportCheckpoint(HfDirectory(Mxfp4()), target, {}, {.rank = 0, .size = 1, .barrier = [] {}});
  EXPECT_EQ(HfDirectory(target).Describe("e.down_proj").shape, (Shape{1, 32, 3}));
  EXPECT_EQ(ReadTextFile((target / "config.json").string()).find("quantization_config"), std::string::npos);
}

// Of a directory of several files, whose index must list the parts.
TEST_F(PackedWeights, AreKeptWhereTheVocabularyGrows) {
  const fs::path model = Mxfp4(), target = scratch_.path() / "to";
  fs::create_directories(target);
  fs::rename(model / "model.safetensors", model / "a.safetensors");
  const std::vector<float> rows = {1, 2, 3, 4};
  WriteSafetensors(model / "b.safetensors", {{"embed.weight", DType::kFp32, {2, 2}, rows.data()}});
  std::ofstream(model / "model.safetensors.index.json")
      << R"({"weight_map": {"e.down_proj_bias": "a.safetensors", "e.down_proj_blocks": "a.safetensors",
             "e.down_proj_scales": "a.safetensors", "embed.weight": "b.safetensors"}})";
  WriteGrownWeights(model, target, {.tensors = {"embed.weight"}, .rows = 2, .new_rows = 3});
  fs::copy_file(model / "config.json", target / "config.json");
  const HfDirectory grown(target);
  EXPECT_EQ(grown.Names(), HfDirectory(model).Names());
  EXPECT_EQ(grown.Find("e.down_proj").shape, (Shape{1, 32, 3}));
  EXPECT_EQ(grown.Find("embed.weight").shape, (Shape{3, 2}));
}

TEST_F(PackedWeights, OfInt8WithScalesThatAreNotFiniteAreRefused) {
  const fs::path model = scratch_.path() / "model";
  fs::create_directories(model);
  const std::vector<int8_t> codes(8);
  const std::vector<float> scales = {1, std::nanf("")};
  WriteSafetensors(model / "model.safetensors",
                   {{"l.SCB", DType::kFp32, {2}, scales.data()}, {"l.weight", DType::kInt8, {2, 4}, codes.data()}});
  EXPECT_EQ(ErrorOf([&] { HfDirectory(model).FindPacked("l.weight"); }),
            (model / "model.safetensors").string() +
                ": 'l.SCB' has nan as element 1 of 2; the file is damaged or the model diverged");
}

TEST_F(PackedWeights, WithScalesThatDoNotFitAreRefused) {
  const fs::path model = Mxfp4({3, 1, 1});
  EXPECT_EQ(
      ErrorOf([&] { HfDirectory(model).Find("e.down_proj"); }),
      (model / "model.safetensors").string() +
          ": tensor 'e.down_proj' in mxfp4: its scales are [3, 1, 1] in uint8; wanted [1, 3, 1] in uint8, one for "
          "each group of its blocks");
}

}  // namespace
}  // namespace trireme
