// Where images are in a prompt, and the positions of what follows, as transformers' rope_deltas continue them.
#include "generation/prompt_images.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr ImageTokens kKind{.placeholder = 9, .merge = 2};

PromptImages Images(std::vector<ImageGrid> grids) {
  PromptImages images;
  for (const ImageGrid& grid : grids) images.each.push_back({grid, {1, 2, 3, grid.height}});
  return images;
}

TEST(PlacedImages, WhatFollowsContinuesAfterTheLargestPosition) {
  // 5, an image of 2 x 3 tokens, 6, one of 1 x 1, 7; then generated tokens.
  const std::vector<int64_t> prompt = {5, 9, 9, 9, 9, 9, 9, 6, 9, 7};
  const PlacedImages placed(prompt, Images({{1, 4, 6}, {1, 2, 2}}), kKind, /*rotary=*/true);
  const auto of = [&](int64_t token) {
    return std::array{placed.Position(token, 0), placed.Position(token, 1), placed.Position(token, 2)};
  };
  using Three = std::array<int64_t, 3>;
  EXPECT_EQ(of(0), (Three{0, 0, 0}));
  EXPECT_EQ(of(3), (Three{1, 1, 3}));
  EXPECT_EQ(of(6), (Three{1, 2, 3}));
  EXPECT_EQ(of(7), (Three{4, 4, 4}));
  EXPECT_EQ(of(8), (Three{5, 5, 5}));
  EXPECT_EQ(of(9), (Three{6, 6, 6}));
  EXPECT_EQ(of(10), (Three{7, 7, 7})) << "the first new token";
  EXPECT_EQ(of(20), (Three{17, 17, 17}));
  ASSERT_EQ(placed.spans().size(), 2u);
  EXPECT_EQ(placed.spans()[0].begin, 1);
  EXPECT_EQ(placed.spans()[0].end, 7);
  EXPECT_EQ(placed.spans()[1].begin, 8);
  EXPECT_EQ(placed.spans()[1].content[3], 2);
}

TEST(PlacedImages, AnImageLast) {
  const PlacedImages placed(std::vector<int64_t>{5, 9, 9}, Images({{1, 2, 4}}), kKind, /*rotary=*/true);
  EXPECT_EQ(placed.Position(3, 0), 3) << "1, and the two columns of the image";
  const PlacedImages tall(std::vector<int64_t>{5, 9, 9}, Images({{1, 4, 2}}), kKind, /*rotary=*/true);
  EXPECT_EQ(tall.Position(3, 2), 3) << "1, and the two rows of the image, though its last token is in column 1";
}

TEST(PlacedImages, WithoutRotaryAxesPositionsCountTokens) {
  const PlacedImages placed(std::vector<int64_t>{5, 9, 9, 9, 9, 6}, Images({{1, 4, 4}}), kKind, /*rotary=*/false);
  for (int64_t i = 0; i < 9; ++i) EXPECT_EQ(placed.Position(i, 1), i);
  EXPECT_EQ(placed.spans()[0].end, 5);
}

TEST(PlacedImages, ContinuationsMayHaveThePlaceholder) {
  PromptImages images = Images({{1, 2, 2}});
  const std::vector<int64_t> prompt = {9, 5, 9, 9};
  EXPECT_THROW(PlacedImages(prompt, images, kKind, true), Error);
  images.within = 2;
  const PlacedImages placed(prompt, images, kKind, true);
  EXPECT_EQ(placed.spans().size(), 1u);
  EXPECT_EQ(placed.Position(3, 2), 3);
}

TEST(PlacedImages, CountsMustMatch) {
  EXPECT_THROW(PlacedImages(std::vector<int64_t>{5, 9}, {}, kKind, true), Error);
  EXPECT_THROW(PlacedImages(std::vector<int64_t>{5, 9}, Images({{1, 2, 4}}), kKind, true), Error);
  EXPECT_THROW(PlacedImages(std::vector<int64_t>{5}, Images({{1, 2, 2}}), kKind, true), Error);
  EXPECT_NO_THROW(PlacedImages(std::vector<int64_t>{5}, {}, kKind, true));
}

}  // namespace
}  // namespace trireme
