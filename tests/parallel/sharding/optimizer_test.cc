// The sharded optimizer under every layout, zero level and type, against torch's AdamW on the whole model in
// one process; norm, clipping, what is not finite, and the states a checkpoint takes.
#include "parallel/sharding/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/core/comm/spmd.h"
#include "tests/parallel/sharding/sharding_cases.h"

namespace trireme {
namespace {

constexpr double kRate = 0.01;
constexpr int kSteps = 3;

template <typename Visit>  // visit(sizes, grids, groups)
void ForEachLayout(const Visit& visit) {
  for (const ParallelSizes& sizes : LayoutsOf(TestJob().world())) {
    const Grids grids = MakeGrids(TestJob().world(), sizes);
    const std::unique_ptr<CommunicatorSet> groups = MakeGroups(grids);
    visit(sizes, grids, *groups);
  }
}

double Distance(const at::Tensor& found, const at::Tensor& wanted) {
  if (wanted.numel() == 0) return 0;
  return (found.to(at::kDouble) - wanted.to(at::kDouble)).abs().max().item<double>();
}

// Whole tensors out of what all ranks own of the shards with that prefix; checks that each element has one
// owner.
std::map<std::string, at::Tensor> Assemble(const std::vector<Shard>& shards, const std::string& state,
                                           const PlainModel& plain, Communicator& world) {
  std::map<std::string, at::Tensor> wholes;
  for (const auto& [name, placement] : plain.placements()) {
    const at::Tensor whole = at::zeros(placement.GlobalShape(), at::kFloat), owners = at::zeros_like(whole);
    for (const Shard& shard : shards) {
      if (shard.key != state + "/" + name) continue;
      EXPECT_EQ(shard.global_shape, placement.GlobalShape());
      for (const ShardBox& box : shard.boxes) {
        if (box.replica != 0) continue;
        const at::Tensor mine =
            at::from_blob(static_cast<float*>(shard.data) + box.offset, box.global.extent, shard.strides);
        at::Tensor in_whole = whole, in_owners = owners;
        for (size_t dim = 0; dim < box.global.offset.size(); ++dim) {
          const auto d = static_cast<int64_t>(dim);
          in_whole = in_whole.narrow(d, box.global.offset[dim], box.global.extent[dim]);
          in_owners = in_owners.narrow(d, box.global.offset[dim], box.global.extent[dim]);
        }
        in_whole.add_(mine);
        in_owners.add_(1);
      }
    }
    AllReduce(whole, world);
    AllReduce(owners, world);
    EXPECT_TRUE(owners.eq(1).all().item<bool>()) << state << "/" << name << ": " << owners;
    wholes[name] = whole;
  }
  return wholes;
}

void ExpectStates(ModelRank& rank, const PlainModel& plain, Communicator& world) {
  const std::vector<Shard> states = rank.optimizer().States();
  const auto master = Assemble(states, "master", plain, world);
  const auto exp_avg = Assemble(states, "exp_avg", plain, world);
  const auto exp_avg_sq = Assemble(states, "exp_avg_sq", plain, world);
  for (const auto& [name, placement] : plain.placements()) {
    EXPECT_LT(Distance(master.at(name), plain.adamw().value(name)), 1e-6) << name;
    EXPECT_LT(Distance(exp_avg.at(name), plain.adamw().exp_avg(name)), 1e-6) << name;
    EXPECT_LT(Distance(exp_avg_sq.at(name), plain.adamw().exp_avg_sq(name)), 5e-6) << name;
  }
}

// Values on this rank are the plain ones (in bf16: those rounded, but for masters that differ in the last
// digit), and padding is zero.
void ExpectValues(ModelRank& rank, const PlainModel& plain, at::ScalarType type) {
  const std::map<std::string, at::Tensor> values = rank.Values();
  for (const Weights::Entry& entry : rank.entries()) {
    const at::Tensor& found = values.at(entry.weight.name);
    const at::Tensor wanted = at::zeros(found.sizes(), at::kFloat);
    CopyToLocal(entry.placement, TestJob().rank(), plain.adamw().value(entry.weight.name), wanted);
    EXPECT_EQ(found.scalar_type(), type);
    if (type == at::kFloat) {
      EXPECT_LT(Distance(found, wanted), 1e-6) << entry.weight.name;
    } else {
      const double rounding =
          (found.to(at::kFloat) - wanted).abs().div(wanted.abs() + 1e-5).max().item<double>();
      EXPECT_LT(rounding, 1.0 / 250) << entry.weight.name;
    }
  }
}

void ExpectPlainSteps(const ParallelSizes& sizes, const Grids& grids, CommunicatorSet& groups,
                      const CaseOptions& options) {
  SCOPED_TRACE(TextOf(sizes, options));
  ModelRank rank(grids, groups, options);
  PlainModel plain(grids, options, kRate);
  for (int step = 1; step <= kSteps; ++step) {
    rank.RunStep(step);
    const GradientReport report = rank.optimizer().FinishGradients();
    const double norm = plain.RunStep(step);
    EXPECT_NEAR(report.norm / norm, 1, 1e-6);
    EXPECT_TRUE(report.finite);
    EXPECT_EQ(report.culprit, "");
    rank.optimizer().Update(kRate);
    EXPECT_EQ(rank.optimizer().step(), step);
  }
  ExpectValues(rank, plain, options.type);
  ExpectStates(rank, plain, groups.Get("world"));
}

TEST(ShardedOptimizer, StepsAsTorchDoesOnTheWholeModel) {
  ForEachLayout([](const ParallelSizes& sizes, const Grids& grids, CommunicatorSet& groups) {
    for (int zero = 0; zero <= 3; ++zero) {
      for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        for (int micro_batches : {1, 3}) {
          ExpectPlainSteps(sizes, grids, groups,
                           {.zero = zero, .type = type, .micro_batches = micro_batches});
        }
      }
    }
  });
}

TEST(ShardedOptimizer, ClipsByTheNormOfAllRanks) {
  ForEachLayout([](const ParallelSizes& sizes, const Grids& grids, CommunicatorSet& groups) {
    CaseOptions options = {.zero = 2};
    options.adamw.clip = 0.25;
    options.adamw.eps = 0.1;  // large, so that the scale of a gradient shows in the very first step
    ExpectPlainSteps(sizes, grids, groups, options);
    options.adamw.clip = 1e6;
    ExpectPlainSteps(sizes, grids, groups, options);
  });
}

TEST(ShardedOptimizer, OffloadToTheHostChangesNothingThere) {
  ForEachLayout([](const ParallelSizes& sizes, const Grids& grids, CommunicatorSet& groups) {
    for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      CaseOptions options = {.zero = 3, .type = type};
      options.adamw.offload = true;
      ExpectPlainSteps(sizes, grids, groups, options);
    }
  });
}

std::map<std::string, at::Tensor> ValuesAfterSteps(const Grids& grids, CommunicatorSet& groups,
                                                   const CaseOptions& options) {
  ModelRank rank(grids, groups, options);
  for (int step = 1; step <= kSteps; ++step) {
    rank.RunStep(step);
    rank.optimizer().FinishGradients();
    rank.optimizer().Update(kRate);
  }
  return rank.Values();
}

TEST(ShardedOptimizer, ZeroLevelsGiveTheSameBits) {
  ForEachLayout([](const ParallelSizes& sizes, const Grids& grids, CommunicatorSet& groups) {
    for (int micro_batches : {1, 2}) {
      std::vector<std::map<std::string, at::Tensor>> levels;
      for (int zero = 0; zero <= 3; ++zero) {
        levels.push_back(ValuesAfterSteps(grids, groups, {.zero = zero, .micro_batches = micro_batches}));
      }
      for (const auto& [name, value] : levels[0]) {
        EXPECT_TRUE(at::equal(value, levels[1].at(name))) << name;
        EXPECT_TRUE(at::equal(levels[2].at(name), levels[3].at(name))) << name;
        // Two micro batches are summed before the ranks are, or after.
        if (micro_batches == 1) {
          EXPECT_TRUE(at::equal(value, levels[2].at(name))) << name;
        }
      }
    }
  });
}

TEST(ShardedOptimizer, GradientsAreTheWholeModelsSums) {
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

// One element of one rank's gradient goes bad; every rank says the same, and a skipped step leaves no trace.
void ExpectNamedAndSkipped(const Grids& grids, CommunicatorSet& groups, const CaseOptions& options,
                           double bad) {
  ModelRank rank(grids, groups, options);
  PlainModel plain(grids, options, kRate);
  const auto before = rank.Values();
  Bucket* bucket = rank.BucketOf("b");
  const bool spoils = bucket != nullptr && TestJob().rank() == grids.world() - 1;
  if (spoils) {
    bucket->PrepareGradients();
    bucket->entries()[2]->weight.gradient.view(-1)[17] = bad;
  }
  rank.RunStep(1);
  const GradientReport report = rank.optimizer().FinishGradients();
  EXPECT_FALSE(report.finite);
  EXPECT_NE(report.culprit.find(std::isnan(bad) ? "b.rows (nan)" : "b.rows (inf)"), std::string::npos)
      << report.culprit;
  const std::vector<std::string> all = TestJob().GatherStrings(report.culprit);
  for (const std::string& culprit : all) EXPECT_EQ(culprit, report.culprit);
  int named = -1;
  ASSERT_EQ(std::sscanf(report.culprit.c_str(), "rank %d: ", &named), 1);
  if (TestJob().rank() == named) {
    EXPECT_FALSE(rank.BucketOf("b")->share_gradient().isfinite().all().item<bool>());
  }
  rank.optimizer().SkipUpdate();
  EXPECT_EQ(rank.optimizer().step(), 0);
  const auto after = rank.Values();
  for (const auto& [name, value] : before) EXPECT_TRUE(at::equal(value, after.at(name))) << name;
  rank.RunStep(1);
  EXPECT_TRUE(rank.optimizer().FinishGradients().finite);
  rank.optimizer().Update(kRate);
  plain.RunStep(1);
  ExpectValues(rank, plain, options.type);
  ExpectStates(rank, plain, groups.Get("world"));
}

TEST(ShardedOptimizer, NamesWhatIsNotFiniteAndSkips) {
  ForEachLayout([](const ParallelSizes& sizes, const Grids& grids, CommunicatorSet& groups) {
    for (int zero = 0; zero <= 3; ++zero) {
      const CaseOptions options = {.zero = zero};
      SCOPED_TRACE(TextOf(sizes, options));
      ExpectNamedAndSkipped(grids, groups, options, std::numeric_limits<double>::quiet_NaN());
      ExpectNamedAndSkipped(grids, groups, options, std::numeric_limits<double>::infinity());
    }
  });
}

TEST(ShardedOptimizer, GoesOnFromLoadedStates) {
  ForEachLayout([](const ParallelSizes& sizes, const Grids& grids, CommunicatorSet& groups) {
    for (int zero = 0; zero <= 3; ++zero) {
      for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        const CaseOptions options = {.zero = zero, .type = type};
        SCOPED_TRACE(TextOf(sizes, options));
        ModelRank first(grids, groups, options), second(grids, groups, options);
        const auto step = [](ModelRank& rank, int number) {
          rank.RunStep(number);
          rank.optimizer().FinishGradients();
          rank.optimizer().Update(kRate);
        };
        step(first, 1);
        step(first, 2);
        const std::vector<Shard> from = first.optimizer().States(), to = second.optimizer().States();
        ASSERT_EQ(from.size(), to.size());
        for (size_t i = 0; i < from.size(); ++i) {
          ASSERT_EQ(from[i].key, to[i].key);
          for (size_t b = 0; b < from[i].boxes.size(); ++b) {
            const ShardBox& box = from[i].boxes[b];
            const auto view = [&](const Shard& shard) {
              return at::from_blob(static_cast<float*>(shard.data) + box.offset, box.global.extent,
                                   shard.strides);
            };
            view(to[i]).copy_(view(from[i]));
          }
        }
        second.optimizer().StatesLoaded(first.optimizer().step());
        step(first, 3);
        step(second, 3);
        const auto wanted = first.Values(), found = second.Values();
        for (const auto& [name, value] : wanted) EXPECT_TRUE(at::equal(value, found.at(name))) << name;
      }
    }
  });
}

}  // namespace
}  // namespace trireme
