// From shards to boxes of the files' tensors: every element arrives exactly once, at its position.
#include "core/plan/file_pieces.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/core/plan/local_shard.h"

namespace trireme {
namespace {

// Maps (file tensor, flat index in it) to the index in memory, element by element.
std::map<std::pair<std::string, int64_t>, int64_t> Walk(const Parameter& parameter, const Shard& shard) {
  std::map<std::pair<std::string, int64_t>, int64_t> places;
  for (const FilePiece& piece : FilePieces(parameter, shard)) {
    const Shape file_strides = RowMajorStrides(piece.tensor->shape);
    for (int64_t i = 0; i < piece.box.elements(); ++i) {
      int64_t in_file = 0, in_memory = piece.offset, rest = i;
      for (size_t dim = piece.box.extent.size(); dim-- > 0; rest /= piece.box.extent[dim]) {
        const int64_t at = rest % piece.box.extent[dim];
        in_file += (piece.box.offset[dim] + at) * file_strides[dim];
        in_memory += at * piece.strides[dim];
      }
      const bool is_new = places.emplace(std::pair(piece.tensor->name, in_file), in_memory).second;
      EXPECT_TRUE(is_new) << piece.tensor->name << " " << in_file;
    }
  }
  return places;
}

TEST(FilePieces, FusedRowsUnderTensorParallelism) {
  const Grids grids = MakeGrids(2, {.tensor = 2});
  const Parameter parameter = StackedParameter(
      {.name = "qkv",
       .dims = {SplitDim("tp", {{.size = 8, .parts = 2, .unit = 2}, {.size = 2, .unit = 2}}), WholeDim(3)}},
      {"q", "k"});
  const Placement placement(parameter.declaration, grids);
  std::vector<float> memory(18);
  const auto second = Walk(parameter, LocalShard(placement, 1, memory.data()));
  EXPECT_EQ(second.size(), 18u);
  EXPECT_EQ(second.at({"q", 12}), 0);   // row 4 of q is the rank's first
  EXPECT_EQ(second.at({"q", 23}), 11);  // its last
  EXPECT_EQ(second.at({"k", 0}), 12);   // both ranks have all of k
}

TEST(FilePieces, AFlatShareOfAStackOfExperts) {
  const Grids grids = MakeGrids(1, {});
  // Three experts of gate|up, each 4 x 2; in the files one by one, without the stacked dim.
  Parameter parameter{.declaration = {.name = "experts", .dims = {WholeDim(3), WholeDim(4), WholeDim(2)}}, .hf = {}};
  for (int64_t expert = 0; expert < 3; ++expert) {
    for (int64_t half = 0; half < 2; ++half) {
      parameter.hf.push_back({.name = (half == 0 ? "gate" : "up") + std::to_string(expert),
                              .shape = {2, 2},
                              .box = {{expert, 2 * half, 0}, {1, 2, 2}}});
    }
  }
  const Placement placement(parameter.declaration, grids);
  std::vector<float> memory(24);
  const Shard shard = FlatShard(placement, 0, {5, 21, {}}, "exp_avg/experts", DType::kFp32, memory.data());
  const auto places = Walk(parameter, shard);
  EXPECT_EQ(places.size(), 16u);
  for (const auto& [file, in_memory] : places) {
    const int64_t expert = file.first.back() - '0', half = file.first[0] == 'u' ? 1 : 0;
    EXPECT_EQ(in_memory, expert * 8 + half * 4 + file.second - 5) << file.first << " " << file.second;
  }
}

TEST(FilePieces, ATransposedTensorSwapsItsStrides) {
  const Grids grids = MakeGrids(1, {});
  Parameter parameter{.declaration = {.name = "w", .dims = {WholeDim(2), WholeDim(3)}},
                      .hf = {{.name = "w", .shape = {3, 2}, .box = {{0, 0}, {2, 3}}, .transposed = true}}};
  const Placement placement(parameter.declaration, grids);
  std::vector<float> memory(6);
  const auto places = Walk(parameter, LocalShard(placement, 0, memory.data()));
  ASSERT_EQ(places.size(), 6u);
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t column = 0; column < 3; ++column) EXPECT_EQ(places.at({"w", column * 2 + row}), row * 3 + column);
  }
}

}  // namespace
}  // namespace trireme
