// Boxes: intersection, and flat ranges against a loop over every element.
#include "core/plan/box.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/core/plan/elements.h"
#include "tests/core/plan/message.h"

namespace trireme {
namespace {

TEST(Box, Intersection) {
  const Box a = {{0, 2}, {4, 4}};
  EXPECT_EQ(Intersect(a, {{2, 0}, {4, 3}}), (Box{{2, 2}, {2, 1}}));
  EXPECT_EQ(Intersect(a, {{4, 2}, {1, 1}}), std::nullopt);
  EXPECT_EQ(Intersect(a, {{1, 3}, {0, 1}}), std::nullopt);
  EXPECT_EQ(Intersect({{}, {}}, {{}, {}}), (Box{{}, {}}));
}

TEST(Box, Text) {
  EXPECT_EQ(ToText(Box{{0, 8}, {4, 8}}), "[0:4, 8:16]");
  EXPECT_EQ(ShapeText({4, 8}), "[4, 8]");
  EXPECT_EQ(RowMajorStrides({2, 3, 4}), (Shape{12, 4, 1}));
}

TEST(FlatRange, MiddleOfAMatrixIsThreeBoxes) {
  const auto pieces = FlatRangeBoxes({5, 4}, 2, 17);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].box, (Box{{0, 2}, {1, 2}}));
  EXPECT_EQ(pieces[1].box, (Box{{1, 0}, {3, 4}}));
  EXPECT_EQ(pieces[2].box, (Box{{4, 0}, {1, 1}}));
  EXPECT_EQ(pieces[2].begin, 16);
}

TEST(FlatRange, Scalar) {
  EXPECT_EQ(FlatRangeBoxes({}, 0, 1).size(), 1u);
  EXPECT_EQ(FlatRangeBoxes({}, 0, 0).size(), 0u);
  EXPECT_EQ(FlatRangeBoxes({3, 0}, 0, 0).size(), 0u);
}

TEST(FlatRange, EveryRangeOfRandomShapesAgainstALoop) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    Shape shape(1 + random() % 4);
    for (int64_t& size : shape) size = 1 + random() % 4;
    const Shape strides = RowMajorStrides(shape);
    for (int64_t begin = 0; begin <= Elements(shape); ++begin) {
      for (int64_t end = begin; end <= Elements(shape); ++end) {
        const auto pieces = FlatRangeBoxes(shape, begin, end);
        ASSERT_LE(pieces.size(), 2 * shape.size() - 1) << ShapeText(shape) << " " << begin << " " << end;
        int64_t next = begin;
        for (const FlatPiece& piece : pieces) {
          ASSERT_EQ(piece.begin, next);
          ForEachElement(piece.box, [&](const Shape& index) {
            int64_t flat = 0;
            for (size_t dim = 0; dim < shape.size(); ++dim) {
              ASSERT_LT(index[dim], shape[dim]);
              flat += index[dim] * strides[dim];
            }
            ASSERT_EQ(flat, next++);
          });
        }
        ASSERT_EQ(next, end);
      }
    }
  }
}

TEST(FlatRange, Refusals) {
  EXPECT_EQ(Refusal([] { FlatRangeBoxes({2, 3}, 4, 7); }),
            "flat range 4 to 7 is not within 6 elements of shape [2, 3]");
  EXPECT_EQ(Refusal([] { FlatRangeBoxes({2, 3}, 3, 2); }),
            "flat range 3 to 2 is not within 6 elements of shape [2, 3]");
}

}  // namespace
}  // namespace trireme
