// Tilings for chips of 20 and 24 AI cores (40 and 48 vector cores): no core idles that could work, tiles fit.
#include "ops/ascendc/tiling.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"

namespace trireme::ascendc {
namespace {

constexpr uint64_t kSizes[] = {1, 2, 39, 40, 41, 47, 48, 49, 63, 64, 65, 1000, 4096, 4097, 32768, 151936};

TEST(TileRows, FitsAndUsesEveryCore) {
  for (const uint32_t cores : {40u, 48u}) {
    const KernelPlace place{nullptr, cores};
    for (const uint64_t rows : kSizes) {
      for (const uint64_t columns : kSizes) {
        for (const uint32_t bytes : {8u, 20u, 28u, 44u, 1032u}) {
          const Tiling tiling = TileRows(rows, columns, bytes, place);
          ASSERT_EQ(tiling.blocks, std::min<uint64_t>(rows, cores));
          ASSERT_EQ(tiling.tile % 64, 0u);
          ASSERT_LE(uint64_t{tiling.tile} * bytes + kSmallBuffers, kBufferBytes);
          // A row that fits into one tile gets one; no tile is longer than its row, rounded up.
          ASSERT_LT(tiling.tile, columns + 64);
          if (columns * bytes + 64 * bytes + kSmallBuffers <= kBufferBytes) {
            ASSERT_GE(tiling.tile, columns);
          }
        }
      }
    }
  }
}

TEST(TilePieces, KeepToTheLongest) {
  KernelPlace place{nullptr, 40};
  EXPECT_EQ(TilePieces(10, 4096, 28, place).tile, TileRows(10, 4096, 28, place).tile);
  place.longest_tile = 1000;
  EXPECT_EQ(TilePieces(10, 4096, 28, place).tile, 960u);
  EXPECT_EQ(TilePieces(10, 100, 28, place).tile, 128u);
  EXPECT_EQ(TileFlat(1 << 20, 28, place).tile, 960u);
  EXPECT_EQ(TileRows(10, 4096, 28, place).tile, 4096u);
}

TEST(TileFlat, SharesEvenly) {
  for (const uint32_t cores : {40u, 48u}) {
    for (const uint64_t count :
         {uint64_t{0}, uint64_t{1}, uint64_t{2048}, uint64_t{100000}, uint64_t{16} << 20, uint64_t{6} << 30}) {
      const Tiling tiling = TileFlat(count, 28, {nullptr, cores});
      ASSERT_LE(uint64_t{tiling.tile} * 28 + kSmallBuffers, kBufferBytes);
      const uint64_t tiles = (count + tiling.tile - 1) / tiling.tile;
      ASSERT_EQ(tiling.blocks, std::clamp<uint64_t>(tiles, 1, cores)) << count;
    }
  }
}

TEST(Size32, RefusesWhatAKernelCannotCount) {
  EXPECT_EQ(Size32(4294967295u, "rows"), 4294967295u);
  try {
    Size32(uint64_t{1} << 32, "rows");
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rows of 4294967296 exceeds a kernel's limit (4294967295); use smaller micro batches");
  }
}

}  // namespace
}  // namespace trireme::ascendc
