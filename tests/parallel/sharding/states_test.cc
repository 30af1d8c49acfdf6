// What the optimizer exports as shards: full gradients, and states from which another one resumes.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "parallel/sharding/optimizer.h"
#include "tests/parallel/sharding/sharding_cases.h"

namespace trireme {
namespace {

TEST(ShardedOptimizer, GradientsEqualTheSumsOfTheWholeModel) {
  ForEachLayout([](const ParallelSizes& sizes, const Grids& grids, CommunicatorSet& groups) {
    for (int zero = 0; zero <= 3; ++zero) {
      const CaseOptions options = {.zero = zero, .micro_batches = 2};
      SCOPED_TRACE(TextOf(sizes, options));
      ModelRank rank(grids, groups, options);
      const PlainModel plain(grids, options, kRate);
      rank.RunStep(1);
      rank.optimizer().FinishGradients();
      const auto found = Assemble(rank.optimizer().Gradients(), "gradient", plain, groups.Get("world"));
      for (const auto& [name, wanted] : plain.Gradients(1)) {
        EXPECT_LT(Distance(found.at(name), wanted), 5e-6) << name;
      }
    }
  });
}

TEST(ShardedOptimizer, ResumesFromLoadedStates) {
  ForEachLayout([](const ParallelSizes& sizes, const Grids& grids, CommunicatorSet& groups) {
    for (int zero = 0; zero <= 3; ++zero) {
      for (const CaseOptions& kind : {CaseOptions{}, CaseOptions{.type = at::kBFloat16},
                                      CaseOptions{.type = at::kBFloat16, .masters = Masters::kSplit}}) {
        CaseOptions options = kind;
        options.zero = zero;
        SCOPED_TRACE(TextOf(sizes, options));
        ModelRank first(grids, groups, options), second(grids, groups, options);
        const auto step = [](ModelRank& rank, int number) {
          rank.RunStep(number);
          rank.optimizer().FinishGradients();
          rank.optimizer().Update(kRate);
        };
        step(first, 1);
        step(first, 2);
        step(second, 9);  // from a different state, and with its values still being gathered
        const std::vector<Shard> from = first.optimizer().States(), to = second.optimizer().States();
        ASSERT_EQ(from.size(), to.size());
        for (size_t i = 0; i < from.size(); ++i) {
          ASSERT_EQ(from[i].key, to[i].key);
          for (size_t b = 0; b < from[i].boxes.size(); ++b) {
            const ShardBox& box = from[i].boxes[b];
            const auto view = [&](const Shard& shard) {
              return at::from_blob(static_cast<float*>(shard.data) + box.offset, box.global.extent, shard.strides);
            };
            view(to[i]).copy_(view(from[i]));
          }
        }
        second.optimizer().StatesLoaded(first.optimizer().step());
        const auto expect_equal = [&] {
          const auto wanted = first.Values(), found = second.Values();
          for (const auto& [name, value] : wanted) EXPECT_TRUE(at::equal(value, found.at(name))) << name;
        };
        expect_equal();
        step(first, 3);
        step(second, 3);
        expect_equal();
      }
    }
  });
}

}  // namespace
}  // namespace trireme
