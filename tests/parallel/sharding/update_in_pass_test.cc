// Updates in the backward pass, which are of one process alone.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "parallel/sharding/optimizer.h"
#include "tests/parallel/sharding/sharding_cases.h"

namespace trireme {
namespace {

constexpr int kSteps = 3;

// Each bucket when its gradient is complete, which is freed then.
TEST(ShardedOptimizer, UpdatesInThePassAreThoseAfterIt) {
  ForEachLayout([](const ParallelSizes& sizes, const Grids& grids, CommunicatorSet& groups) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      CaseOptions options = {.type = type};
      SCOPED_TRACE(TextOf(sizes, options));
      options.adamw.in_backward = true;
      ModelRank rank(grids, groups, options), other(grids, groups, {.type = type});
      for (int step = 1; step <= kSteps; ++step) {
        rank.optimizer().BeginStep(kRate);
        rank.RunStep(step);
        other.RunStep(step);
        for (const Bucket* bucket : rank.buckets()) EXPECT_EQ(bucket->memory().gradient_bytes, 0);
        EXPECT_NEAR(rank.optimizer().FinishGradients().norm / other.optimizer().FinishGradients().norm, 1, 1e-6);
        rank.optimizer().Update(kRate);
        other.optimizer().Update(kRate);
      }
      const std::map<std::string, at::Tensor> wanted = other.Values(), found = rank.Values();
      for (const auto& [name, value] : wanted) EXPECT_TRUE(at::equal(value, found.at(name))) << name;
    }
  });
}

}  // namespace
}  // namespace trireme
