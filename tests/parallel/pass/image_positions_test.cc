// Positions of images: against numbers that transformers printed (image_positions.golden), a small row by hand, packed
// documents against each by itself, and rows whose images and placeholders do not match.
#include "parallel/pass/image_positions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/base/error.h"

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

}  // namespace
}  // namespace trireme
