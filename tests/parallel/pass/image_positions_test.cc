// Positions of images: against numbers that transformers printed (image_positions.golden), a small row by hand, packed
// documents against each by itself, and rows whose images and placeholders do not match.
#include "parallel/pass/image_positions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "parallel/pass/shared_image_positions.h"

namespace trireme {
namespace {

using Numbers = std::vector<int64_t>;
constexpr int64_t kPad = 999;
const ImageTokens kQwen{.placeholder = kPad, .merge = 2};

struct Row {
  Numbers tokens;
  std::vector<ImageGrid> grids;
};

Row RowOf(const std::string& runs, int64_t merge) {
  Row row;
  std::istringstream words(runs);
  for (char kind; words >> kind;) {
    int64_t first = 0, second = 0;
    words >> first;
    if (kind == 't') {
      row.tokens.insert(row.tokens.end(), static_cast<size_t>(first), 5);
    } else {
      words >> second;
      row.grids.push_back({1, first, second});
      row.tokens.insert(row.tokens.end(), static_cast<size_t>(row.grids.back().tokens(merge)), kPad);
    }
  }
  return row;
}

TEST(ImagePositions, AreTransformersOnes) {
  std::ifstream golden(TRIREME_IMAGE_POSITIONS);
  int cases = 0;
  for (std::string line; std::getline(golden, line); ++cases) {
    const size_t first = line.find('|'), second = line.find('|', first + 1);
    const ImageTokens kind{kPad, std::stoll(line)};
    const Row row = RowOf(line.substr(first + 1, second - first - 1), kind.merge);
    const Numbers found = ImagePositions(row.tokens, row.grids, kind);
    ASSERT_EQ(found.size(), 3 * row.tokens.size());
    uint32_t sum = 0;
    for (size_t i = 0; i < found.size(); ++i) sum += static_cast<uint32_t>(found[i]) * static_cast<uint32_t>(i + 1);
    std::istringstream expected(line.substr(second + 1));
    uint32_t expected_sum = 0;
    int64_t largest = 0;
    expected >> expected_sum >> largest;
    EXPECT_EQ(sum, expected_sum) << line;
    EXPECT_EQ(*std::ranges::max_element(found), largest) << line;
  }
  EXPECT_EQ(cases, 60);
}

TEST(ImagePositions, OfARowByHand) {
  // Text, text, an image of 2 x 3 tokens, text: the text goes on after the longer side.
  const Numbers tokens = {5, 6, kPad, kPad, kPad, kPad, kPad, kPad, 7};
  const std::vector<ImageGrid> grids = {{1, 4, 6}};
  const Numbers expected = {0, 1, 2, 2, 2, 2, 2, 2, 5,   // time
                            0, 1, 2, 2, 2, 3, 3, 3, 5,   // row
                            0, 1, 2, 3, 4, 2, 3, 4, 5};  // column
  EXPECT_EQ(ImagePositions(tokens, grids, kQwen), expected);
}

TEST(ImagePositions, OfTilesArePlain) {
  constexpr ImageTokens kTiled{.placeholder = kPad, .merge = 2, .tile = 2};
  const Numbers tokens = {5, kPad, kPad, kPad, 7};
  EXPECT_EQ(ImagePositions(tokens, std::vector<ImageGrid>{{3, 2, 2}}, kTiled),
            (Numbers{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  EXPECT_THROW(ImagePositions(tokens, std::vector<ImageGrid>{{1, 2, 6}}, kTiled), Error);  // another size
}

TEST(ImagePositions, OfTextAreTheSameThreeTimes) {
  EXPECT_EQ(ImagePositions(Numbers{1, 2, 3}, {}, kQwen), (Numbers{0, 1, 2, 0, 1, 2, 0, 1, 2}));
  EXPECT_TRUE(ImagePositions({}, {}, kQwen).empty());
}

TEST(ImagePositions, PackedDocumentsAreEachByItself) {
  const std::vector<Row> rows = {RowOf("t 3 i 4 6 t 2", 2), RowOf("t 4", 2), RowOf("i 2 2 t 1 i 8 4", 2)};
  Row packed;
  Numbers lengths;
  for (const Row& row : rows) {
    packed.tokens.insert(packed.tokens.end(), row.tokens.begin(), row.tokens.end());
    packed.grids.insert(packed.grids.end(), row.grids.begin(), row.grids.end());
    lengths.push_back(std::ssize(row.tokens));
  }
  packed.tokens.insert(packed.tokens.end(), 3, 0);  // padding
  const Numbers found = PackedImagePositions(packed.tokens, lengths, packed.grids, kQwen);
  size_t begin = 0;
  for (const Row& row : rows) {
    const Numbers alone = ImagePositions(row.tokens, row.grids, kQwen);
    for (size_t axis = 0; axis < 3; ++axis) {
      for (size_t i = 0; i < row.tokens.size(); ++i) {
        EXPECT_EQ(found[axis * packed.tokens.size() + begin + i], alone[axis * row.tokens.size() + i]);
      }
    }
    begin += row.tokens.size();
  }
  EXPECT_EQ(found.back(), 2);  // of the padding
}

std::string Complaint(const Row& row) {
  try {
    ImagePositions(row.tokens, row.grids, kQwen);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST(ImagePositions, RefuseWhatDoesNotFit) {
  Row row = RowOf("t 2 i 4 4 t 1", 2);
  row.grids[0].width = 6;
  EXPECT_NE(Complaint(row).find("4 placeholders"), std::string::npos) << Complaint(row);
  row.grids[0].width = 2;
  EXPECT_NE(Complaint(row).find("images end"), std::string::npos) << Complaint(row);
  row.grids.clear();
  EXPECT_NE(Complaint(row).find("images end"), std::string::npos);
  row = RowOf("t 2 i 4 4 t 1", 2);
  row.grids.push_back({1, 2, 2});
  EXPECT_NE(Complaint(row).find("1 more images"), std::string::npos) << Complaint(row);
  row.grids = {{1, 3, 4}};
  EXPECT_NE(Complaint(row).find("multiples of 2"), std::string::npos) << Complaint(row);
  row.grids = {{2, 2, 4}};
  EXPECT_NE(Complaint(row).find("2 frames"), std::string::npos) << Complaint(row);
}

// Documents that share their beginning are placed as if each had it, and its images are there once.
TEST(ImagePositions, OfDocumentsThatShareTheirBeginning) {
  const ImageTokens kind{.placeholder = 9, .merge = 2};
  const ImageGrid small{1, 2, 4}, large{1, 4, 4};  // of 2 and 4 tokens
  const std::vector<int64_t> prompt = {1, 9, 9, 2, 9, 9, 9, 9, 3}, chosen = {4, 5}, rejected = {6};
  for (const size_t shared : {size_t{8}, size_t{5}, size_t{4}, size_t{3}, size_t{1}, size_t{0}}) {
    std::vector<int64_t> tokens = prompt;
    tokens.insert(tokens.end(), chosen.begin(), chosen.end());
    const auto first = static_cast<int64_t>(tokens.size());
    tokens.insert(tokens.end(), prompt.begin() + static_cast<std::ptrdiff_t>(shared), prompt.end());
    tokens.insert(tokens.end(), rejected.begin(), rejected.end());
    const int64_t second = std::ssize(tokens) - first;
    tokens.insert(tokens.end(), {9, 9, 7});  // one more, with an image of its own
    std::vector<ImageGrid> grids = {small, large};
    if (shared <= 4) grids.push_back(large);
    if (shared <= 1) grids.insert(grids.begin() + 2, small);
    grids.push_back(small);
    const PlacedImageTokens placed =
        PlaceImageTokens(tokens, std::vector<int64_t>{first, second, 3},
                         std::vector<int64_t>{0, static_cast<int64_t>(shared), 0}, grids, kind);
    std::vector<int64_t> alone = prompt;
    alone.insert(alone.end(), rejected.begin(), rejected.end());
    const std::vector<ImageGrid> both = {small, large};
    const std::vector<int64_t> wanted = ImagePositions(alone, both, kind);
    for (size_t axis = 0; axis < 3; ++axis) {
      for (int64_t i = 0; i < second; ++i) {
        EXPECT_EQ(placed.positions[axis * tokens.size() + static_cast<size_t>(first + i)],
                  wanted[axis * alone.size() + shared + static_cast<size_t>(i)])
            << "shared " << shared << ", axis " << axis << ", token " << i;
      }
    }
    // Numbers of tokens of images rise by one, except where an image is continued from the shared beginning.
    EXPECT_EQ(placed.image_token[1], 0);
    EXPECT_EQ(placed.image_token[7], 5);
    EXPECT_EQ(placed.image_token[8], -1);
    if (shared == 5) {
      EXPECT_EQ(placed.image_token[static_cast<size_t>(first)], 3) << "the rest of an image that is cut";
    }
    if (shared == 4) {
      EXPECT_EQ(placed.image_token[static_cast<size_t>(first)], 6) << "an image again";
    }
    int64_t all = 0;
    for (const ImageGrid& grid : grids) all += grid.tokens(kind.merge);
    EXPECT_EQ(placed.image_token[tokens.size() - 3], all - 2);
    EXPECT_EQ(placed.image_token[tokens.size() - 2], all - 1);
  }
}

TEST(ImagePositions, OfDocumentsWithTooManyOrTooFewImages) {
  const ImageTokens kind{.placeholder = 9, .merge = 2};
  const std::vector<int64_t> tokens = {1, 9, 9, 3, 4, 3, 5}, lengths = {5, 2}, shared = {0, 3};
  const std::vector<ImageGrid> two(2, {1, 2, 4});
  EXPECT_NO_THROW(PlaceImageTokens(tokens, lengths, shared, std::span(two).first(1), kind));
  EXPECT_THROW(PlaceImageTokens(tokens, lengths, shared, two, kind), Error);
  EXPECT_THROW(PlaceImageTokens(tokens, lengths, shared, {}, kind), Error);
}

}  // namespace
}  // namespace trireme
