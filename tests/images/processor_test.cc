// Sizes, resizing and patches: against numbers that transformers and torchvision printed, and settings that are
// refused.
#include "images/processor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "images/resize.h"
#include "tests/images/small_images.h"

namespace trireme::images {
namespace {

TEST(Resize, IsTorchvisionsToTheBit) {
  struct Case {
    int64_t width, height, to_width, to_height;
    uint32_t digest;
  };
  // torchvision.transforms.v2.functional.resize of uint8, bicubic with antialias, of the pixels below.
  const std::vector<Case> cases = {
      {1, 1, 28, 28, 68298160u},       {7, 5, 28, 56, 1241654003u},   {100, 40, 28, 28, 351512288u},
      {300, 200, 84, 196, 301185218u}, {64, 64, 64, 32, 2398378209u}, {64, 64, 32, 64, 2395169296u},
      {33, 77, 33, 77, 3688711132u},   {500, 3, 28, 140, 184729704u}, {2, 900, 56, 112, 1011030639u},
  };
  for (const Case& c : cases) {
    Image image(c.width, c.height);
    for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = static_cast<uint8_t>(i * i * 7 + i * 13);
    const Image resized = Resize(image, c.to_width, c.to_height);
    EXPECT_EQ(DigestOf(resized.rgb), c.digest)
        << c.width << " x " << c.height << " to " << c.to_width << " x " << c.to_height;
  }
}

const ProcessorSettings kThree{.patch_size = 16, .min_pixels = 65536, .max_pixels = 16777216};

TEST(SizeFor, IsSmartResize) {
  struct Case {
    PixelSize size, two, three;
  };
  const std::vector<Case> cases = {
      {{1, 1}, {56, 56}, {256, 256}},
      {{200, 1}, {812, 28}, {3648, 32}},
      {{70, 42}, {56, 56}, {352, 224}},
      {{98, 98}, {112, 112}, {256, 256}},
      {{28, 28}, {56, 56}, {256, 256}},
      {{14, 14}, {56, 56}, {256, 256}},
      {{2000, 3000}, {812, 1204}, {1984, 3008}},
      {{1999, 13}, {700, 28}, {3200, 32}},
      {{15000, 20000}, {840, 1148}, {3520, 4704}},
      {{55, 56}, {56, 56}, {256, 288}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(ImageProcessor(ProcessorSettings{}).SizeFor(c.size, "it"), c.two)
        << c.size.width << " x " << c.size.height;
    EXPECT_EQ(ImageProcessor(kThree).SizeFor(c.size, "it"), c.three) << c.size.width << " x " << c.size.height;
  }
  EXPECT_THROW(ImageProcessor(kThree).SizeFor({201, 1}, "it"), Error);
  EXPECT_NO_THROW(ImageProcessor(kThree).SizeFor({200, 1}, "it"));
  EXPECT_THROW(ImageProcessor({.min_pixels = 0}).SizeFor({5, 5}, "it"), Error);  // would have no pixels
}

TEST(Tiles, AreOfTheNearestAspectRatio) {
  struct Case {
    int64_t width, height, most, columns, rows;
  };
  const std::vector<Case> cases = {
      {448, 448, 12, 1, 1},
      {896, 448, 12, 2, 1},
      {1344, 1344, 12, 3, 3},  // of equally near ones the largest that
                               // is filled by half
      {634, 634, 12, 2, 2},
      {633, 633, 12, 1, 1},  // half of 2 x 2 tiles, and less
      {100, 1200, 12, 1, 12},
      {100, 5000, 12, 1, 12},
      {800, 600, 12, 4, 3},
      {800, 600, 1, 1, 1},
  };
  for (const Case& c : cases) {
    const TileGrid found = TilesFor(c.width, c.height, {.most = c.most});
    EXPECT_EQ(std::pair(found.columns, found.rows), std::pair(c.columns, c.rows)) << c.width << " x " << c.height;
  }
  EXPECT_EQ(TilesFor(896, 448, {}).tiles(), 3);
  EXPECT_EQ(TilesFor(448, 448, {}).tiles(), 1);
}

TEST(Tiles, StandOneBelowTheOther) {
  Image image(4, 2);
  for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = static_cast<uint8_t>(i);
  const Image cut = CutTiles(image, {.side = 2});
  ASSERT_EQ(std::pair(cut.width, cut.height), std::pair(int64_t{2}, int64_t{6}));
  EXPECT_EQ(cut.row(0)[0], 0);
  EXPECT_EQ(cut.row(1)[0], 12);  // the first tile's second row
  EXPECT_EQ(cut.row(2)[0], 6);   // the second tile, from column 2 on
  EXPECT_EQ(cut.row(3)[5], 23);
  const Image whole = Resize(image, 2, 2);  // the last tile
  EXPECT_TRUE(std::equal(whole.rgb.begin(), whole.rgb.end(), cut.row(4)));
  const ImageGrid grid = ImageProcessor({.patch_size = 1, .tiles = TileSettings{.side = 2}}).GridFor({4, 2}, "it");
  EXPECT_EQ(grid, (ImageGrid{3, 2, 2}));
}

TEST(Tiles, OfThinImagesAreRefused) {
  const ImageProcessor processor({.tiles = TileSettings{}});
  EXPECT_THROW(processor.GridFor({1, 201}, "it"), Error);
  EXPECT_NO_THROW(processor.GridFor({1, 200}, "it"));
}

TEST(WritePatches, OrdersBlocksRowsAndChannels) {
  // Patches of 1 x 1, blocks of 2 x 2, one frame: an image of 4 x 2 whose red counts pixels, green 10 more, blue 20
  // more.
  const ProcessorSettings settings{
      .patch_size = 1, .temporal_patch_size = 2, .merge_size = 2, .mean = {}, .std = {1, 1, 1}};
  const ImageProcessor processor(settings);
  Image image(4, 2);
  for (size_t i = 0; i < 8; ++i) {
    for (size_t c = 0; c < 3; ++c) image.rgb[3 * i + c] = static_cast<uint8_t>(i + 10 * c);
  }
  ASSERT_EQ(processor.patch_floats(), 6);
  std::vector<float> patches(8 * 6);
  processor.WritePatches(image, patches.data());
  const std::vector<int> order = {0, 1, 4, 5, 2, 3, 6, 7};
  for (size_t p = 0; p < 8; ++p) {
    for (size_t k = 0; k < 6; ++k) {  // channel, then frame
      EXPECT_EQ(patches[6 * p + k], static_cast<float>(order[p] + 10 * static_cast<int>(k / 2)) / 255.0f)
          << p << " " << k;
    }
  }
}

class Settings : public testing::Test {
 protected:
  Settings() { std::filesystem::create_directories(folder_); }
  ~Settings() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  std::string Complaint() {
    try {
      ProcessorSettings::Read(folder_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  const std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) / "processor_settings";
};

TEST_F(Settings, AreReadFromEitherFile) {
  EXPECT_NE(Complaint().find("preprocessor_config.json"), std::string::npos);
  Write(
      "preprocessor_config.json",
      R"({"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "image_processor_type": "Qwen2VLImageProcessor"})");
  EXPECT_EQ(ProcessorSettings::Read(folder_).max_pixels, 12845056);
  Write("processor_config.json", R"({"image_processor": {"size": {"shortest_edge": 65536, "longest_edge": 16777216},
    "patch_size": 16, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}})");
  const ProcessorSettings found = ProcessorSettings::Read(folder_);
  EXPECT_EQ(found.patch_size, 16);
  EXPECT_EQ(found.min_pixels, 65536);
  EXPECT_EQ(found.max_pixels, 16777216);
  EXPECT_EQ(found.mean[1], 0.5);
}

TEST_F(Settings, AreHonouredOrRefused) {
  for (const char* text :
       {R"({"image_processor_type": "CLIPImageProcessor"})", R"({"do_resize": false})", R"({"do_normalize": false})",
        R"({"resample": 2})", R"({"patch_size": 0})", R"({"patch_size": "x"})", R"({"image_std": [0, 1, 1]})", "[]"}) {
    Write("preprocessor_config.json", text);
    EXPECT_NE(Complaint().find("preprocessor_config.json"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace trireme::images
