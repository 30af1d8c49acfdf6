// NEFTune's noise against its rule: uniform within ± alpha / √(tokens · columns) of each document, whatever rows stand
// beside each other.
#include "parallel/layers/embedding_noise.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

constexpr int64_t kColumns = 512;

EmbeddingNoise NoiseOf(const at::Tensor& rows, int64_t tokens, double alpha = 5, uint64_t seed = 3) {
  return {.alpha = alpha,
          .random = RandomStream(seed, "neftune"),
          .rows = rows,
          .document_tokens = at::full_like(rows, tokens)};
}

TEST(EmbeddingNoise, IsUniformWithinItsBound) {
  for (const int64_t tokens : {40, 640}) {
    const at::Tensor noise = MakeNoise(NoiseOf(at::arange(200, at::kLong), tokens), kColumns);
    const double bound = 5 / std::sqrt(static_cast<double>(tokens * kColumns)), count = 200.0 * kColumns;
    EXPECT_LE(noise.abs().max().item<double>(), bound * (1 + 1e-6));
    EXPECT_GT(noise.max().item<double>(), bound * 0.999);
    EXPECT_LT(noise.min().item<double>(), bound * -0.999);
    EXPECT_NEAR(noise.mean().item<double>(), 0, 5 * bound / std::sqrt(3 * count));
    EXPECT_NEAR(noise.square().mean().item<double>(), bound * bound / 3, 0.01 * bound * bound);
    // Tenths of the range are equally full.
    const at::Tensor counts = at::histc(noise, 10, -bound, bound);
    EXPECT_LT((counts / (count / 10) - 1).abs().max().item<double>(), 0.05);
    // Adjacent columns and rows have nothing in common.
    const auto product = [&](int64_t dim) {
      const int64_t size = noise.size(dim) - 1;
      return (noise.narrow(dim, 0, size) * noise.narrow(dim, 1, size)).mean().item<double>();
    };
    EXPECT_NEAR(product(0), 0, 0.01 * bound * bound);
    EXPECT_NEAR(product(1), 0, 0.01 * bound * bound);
  }
}

TEST(EmbeddingNoise, FollowsFromTheTokenAlone) {
  const at::Tensor rows = at::arange(50, 90, at::kLong), some = rows.slice(0, 7, 31, 3);
  const at::Tensor all = MakeNoise(NoiseOf(rows, 40), kColumns);
  EXPECT_TRUE(at::equal(MakeNoise(NoiseOf(some, 40), kColumns), all.slice(0, 7, 31, 3)));
  EXPECT_FALSE(at::equal(MakeNoise(NoiseOf(rows, 40, 5, /*seed=*/4), kColumns), all));
  EXPECT_TRUE(at::allclose(MakeNoise(NoiseOf(rows, 160), kColumns) * 2, all));
  EXPECT_TRUE(at::equal(MakeNoise(NoiseOf(rows, 40, 0), kColumns), at::zeros_like(all)));
}

}  // namespace
}  // namespace trireme
