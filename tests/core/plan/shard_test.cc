// Shards: what all ranks write through their boxes reproduces the global tensor, for whole local tensors and
// for the flat shards of a sharded optimizer; refusals; element types.
#include "core/plan/shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/core/plan/elements.h"
#include "tests/core/plan/local_shard.h"
#include "tests/core/plan/message.h"

namespace trireme {
namespace {

int64_t Flat(const Shape& index, const Shape& shape) {
  const Shape strides = RowMajorStrides(shape);
  int64_t flat = 0;
  for (size_t dim = 0; dim < index.size(); ++dim) flat += index[dim] * strides[dim];
  return flat;
}

// Calls visit(flat index in the global tensor, offset in the shard's memory) for each element of a box.
template <typename Visit>
void ForEachAddress(const Shard& shard, const ShardBox& box, const Visit& visit) {
  ForEachElement(box.global, [&](const Shape& index) {
    int64_t address = box.offset;
    for (size_t dim = 0; dim < index.size(); ++dim) {
      address += (index[dim] - box.global.offset[dim]) * shard.strides[dim];
    }
    visit(Flat(index, shard.global_shape), address);
  });
}

Placement Fused(const Grids& grids) {
  return Placement(
      {.name = "qkv", .dims = {SplitDim("tp", {{8, 4}, {.size = 5, .parts = 2, .padding = 1}, {4, 2}}), WholeDim(3)}},
      grids);
}

TEST(Shard, LocalTensorsOfAllRanksCoverTheGlobalOne) {
  const Placement placement = Fused(MakeGrids(8, {.tensor = 4}));
  std::vector<int> owners(Elements(placement.GlobalShape()), 0);
  for (int rank = 0; rank < 8; ++rank) {
    std::vector<float> local(Elements(placement.LocalShape()));
    const Shard shard = LocalShard(placement, rank, local.data());
    EXPECT_EQ(shard.key, "qkv");
    for (const ShardBox& box : shard.boxes) {
      ForEachAddress(shard, box, [&](int64_t global, int64_t address) {
        ASSERT_LT(address, static_cast<int64_t>(local.size()));
        if (box.replica == 0) ++owners[global];
      });
    }
  }
  EXPECT_EQ(owners, std::vector<int>(owners.size(), 1));
}

TEST(Shard, FlatShardsOfAllRanksCoverTheGlobalTensorOnce) {
  const Grids grids = MakeGrids(12, {.tensor = 4});  // dp 3
  const Placement placement = Fused(grids);
  const int64_t elements = Elements(placement.LocalShape());
  std::vector<int> owners(Elements(placement.GlobalShape()), 0);
  for (int rank = 0; rank < 12; ++rank) {
    const int dp = grids.dense.Coordinate(rank, "dp");
    const FlatShare share = {elements * dp / 3, elements * (dp + 1) / 3, {"cp", "dp"}};
    // The local tensor holds each element's own flat index, so an address shows what it points to.
    std::map<int64_t, int64_t> global_of_local;
    std::vector<float> whole(elements);
    const Shard all = LocalShard(placement, rank, whole.data());
    for (const ShardBox& box : all.boxes) {
      ForEachAddress(all, box, [&](int64_t global, int64_t address) { global_of_local[address] = global; });
    }
    const Shard shard = FlatShard(placement, rank, share, "exp_avg/qkv", DType::kFp32, whole.data() + share.begin);
    for (const ShardBox& box : shard.boxes) {
      ForEachAddress(shard, box, [&](int64_t global, int64_t address) {
        ASSERT_GE(address, 0);
        ASSERT_LT(address, share.end - share.begin);
        ASSERT_EQ(global_of_local.at(address + share.begin), global);
        if (box.replica == 0) ++owners[global];
      });
    }
  }
  EXPECT_EQ(owners, std::vector<int>(owners.size(), 1));
}

TEST(Shard, Refusals) {
  float value = 0;
  const auto refusal = [&](std::string key, Shape strides, ShardBox box, void* data) {
    return Refusal([&] { Shard(key, DType::kFp32, {4, 4}, strides, {box}, data); });
  };
  EXPECT_EQ(refusal("w", {4, 1}, {{{2, 0}, {3, 4}}}, &value), "w: box [2:5, 0:4] is not inside the shape [4, 4]");
  EXPECT_EQ(refusal("w", {4, 1}, {{{0}, {4}}}, &value), "w: box [0:4] is not inside the shape [4, 4]");
  EXPECT_EQ(refusal("w", {1}, {{{0, 0}, {1, 1}}}, &value), "w: 1 strides for the shape [4, 4]");
  EXPECT_EQ(refusal("w", {4, 1}, {{{0, 0}, {1, 1}}}, nullptr), "w: box [0:1, 0:1] has no memory");
  EXPECT_EQ(refusal("w", {4, 1}, {{{0, 0}, {1, 1}}, -1}, &value),
            "w: box [0:1, 0:1] has offset -1 and replica 0; wanted both at least 0");
  EXPECT_EQ(refusal("", {4, 1}, {{{0, 0}, {1, 1}}}, &value), "a shard of shape [4, 4] has no key");
}

TEST(DType, NamesAndSizes) {
  EXPECT_EQ(ByteSize(DType::kBf16), 2);
  EXPECT_EQ(Name(DType::kFp8E4M3), "fp8e4m3");
  for (DType dtype : {DType::kFp64, DType::kFp32, DType::kInt16, DType::kBool}) {
    EXPECT_EQ(DTypeFromName(Name(dtype)), dtype);
  }
  EXPECT_EQ(Refusal([] { DTypeFromName("float"); }),
            "element type 'float' is unknown; known: fp64, fp32, fp16, bf16, fp8e4m3, int64, int32, int16, int8, "
            "uint8, bool");
}

}  // namespace
}  // namespace trireme
