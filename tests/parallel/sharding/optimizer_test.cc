// The sharded optimizer under every layout, zero level and type, against torch's AdamW on the whole model in
// one process; norm, clipping, and non-finite gradients.
#include "parallel/sharding/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/core/comm/spmd.h"
#include "tests/parallel/sharding/sharding_cases.h"

namespace trireme {
namespace {

constexpr int kSteps = 3;

void ExpectStates(ModelRank& rank, const PlainModel& plain, Communicator& world) {
  const std::vector<Shard> states = rank.optimizer().States();
  const auto master = Assemble(states, "master", plain, world);
  const auto exp_avg = Assemble(states, "exp_avg", plain, world);
  const auto exp_avg_sq = Assemble(states, "exp_avg_sq", plain, world);
  for (const auto& [name, placement] : plain.placements()) {
    EXPECT_LT(Distance(master.at(name), plain.adamw().value(name)), 1e-6) << name;
    EXPECT_LT(Distance(exp_avg.at(name), plain.adamw().exp_avg(name)), 1e-6) << name;
    const at::Tensor& squares = plain.adamw().exp_avg_sq(name);
    const double largest = squares.numel() == 0 ? 0 : squares.max().item<double>();
    EXPECT_LT(Distance(exp_avg_sq.at(name), squares), 1e-6 * (1 + largest)) << name;
  }
}

// Values on this rank equal the reference (in bf16: rounded, except where masters differ in the last digit),
// and padding is zero.
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
      const double rounding = (found.to(at::kFloat) - wanted).abs().div(wanted.abs() + 1e-5).max().item<double>();
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
    EXPECT_EQ(report.source, "");
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
          ExpectPlainSteps(sizes, grids, groups, {.zero = zero, .type = type, .micro_batches = micro_batches});
        }
      }
    }
  });
}

// To the bit, but for what the fused loops of whole masters round in another way.
TEST(ShardedOptimizer, SplitMastersStepAsWholeOnes) {
  ForEachLayout([](const ParallelSizes& sizes, const Grids& grids, CommunicatorSet& groups) {
    for (int zero = 0; zero <= 3; ++zero) {
      ExpectPlainSteps(sizes, grids, groups,
                       {.zero = zero, .type = at::kBFloat16, .micro_batches = 2, .masters = Masters::kSplit});
    }
  });
}

TEST(ShardedOptimizer, ClipsByTheNormOfAllRanks) {
  ForEachLayout([](const ParallelSizes& sizes, const Grids& grids, CommunicatorSet& groups) {
    CaseOptions options = {.zero = 2};
    options.adamw.clip = 0.25;
    options.adamw.eps = 0.1;  // large, so that a gradient's scale affects the very first step
    ExpectPlainSteps(sizes, grids, groups, options);
    options.adamw.clip = 1e6;
    ExpectPlainSteps(sizes, grids, groups, options);
  });
}

TEST(ShardedOptimizer, OffloadToTheHostChangesNothing) {
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

// Between steps no gradient is in memory, and the next step is what it would have been.
TEST(ShardedOptimizer, LendsTheMemoryOfGradients) {
  ForEachLayout([](const ParallelSizes& sizes, const Grids& grids, CommunicatorSet& groups) {
    for (int zero = 0; zero <= 3; ++zero) {
      SCOPED_TRACE(TextOf(sizes, {.zero = zero}));
      const auto wanted = ValuesAfterSteps(grids, groups, {.zero = zero, .micro_batches = 2});
      ModelRank rank(grids, groups, {.zero = zero, .micro_batches = 2});
      for (int step = 1; step <= kSteps; ++step) {
        rank.optimizer().LendMemory(/*states=*/true);
        for (const Bucket* bucket : rank.buckets()) EXPECT_EQ(bucket->memory().gradient_bytes, 0);
        rank.optimizer().TakeMemoryBack();
        rank.RunStep(step);
        rank.optimizer().FinishGradients();
        rank.optimizer().Update(kRate);
      }
      for (const auto& [name, value] : rank.Values()) EXPECT_TRUE(at::equal(value, wanted.at(name))) << name;
    }
  });
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

// One element of one rank's gradient becomes non-finite; every rank reports the same, and a skipped step
// changes nothing.
void ExpectNamedAndSkipped(const Grids& grids, CommunicatorSet& groups, const CaseOptions& options, double bad) {
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
  EXPECT_NE(report.source.find(std::isnan(bad) ? "b.rows (nan)" : "b.rows (inf)"), std::string::npos) << report.source;
  const std::vector<std::string> all = TestJob().GatherStrings(report.source);
  for (const std::string& source : all) EXPECT_EQ(source, report.source);
  int named = -1;
  ASSERT_EQ(std::sscanf(report.source.c_str(), "rank %d: ", &named), 1);
  if (TestJob().rank() == named) {
    EXPECT_FALSE(rank.BucketOf("b")->shard_gradient().isfinite().all().item<bool>());
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

void RunSpoiltStep(ModelRank& rank, const Grids& grids) {
  Bucket* bucket = rank.BucketOf("b");
  if (bucket != nullptr && TestJob().rank() == grids.world() - 1) {
    bucket->PrepareGradients();
    bucket->entries()[2]->weight.gradient_sum().view(-1)[17] = std::numeric_limits<double>::quiet_NaN();
  }
  rank.RunStep(3);
}

// One update with the gradients of several passes; one that is not finite leaves those before it as they were.
TEST(ShardedOptimizer, KeepsGradientsOverPasses) {
  ForEachLayout([](const ParallelSizes& sizes, const Grids& grids, CommunicatorSet& groups) {
    for (int zero = 0; zero <= 3; ++zero) {
      const CaseOptions options = {.zero = zero, .micro_batches = 2};
      SCOPED_TRACE(TextOf(sizes, options));
      ModelRank rank(grids, groups, options);
      const PlainModel plain(grids, options, kRate);
      ShardedOptimizer& optimizer = rank.optimizer();
      RunSpoiltStep(rank, grids);
      EXPECT_FALSE(optimizer.FinishGradients().finite);
      optimizer.DropPass();
      EXPECT_FALSE(optimizer.has_gradients());
      rank.RunStep(1);
      const double norm = optimizer.FinishGradients().norm;
      optimizer.KeepGradients();
      RunSpoiltStep(rank, grids);
      EXPECT_FALSE(optimizer.FinishGradients().finite);
      optimizer.DropPass();
      ASSERT_TRUE(optimizer.has_gradients());
      EXPECT_EQ(optimizer.report().norm, norm);
      optimizer.KeepGradients();
      rank.RunStep(2);
      const GradientReport report = optimizer.FinishGradients();
      std::map<std::string, at::Tensor> wanted = plain.Gradients(1);
      for (const auto& [name, other] : plain.Gradients(2)) wanted[name] = wanted.at(name) + other;
      EXPECT_NEAR(report.norm / PlainModel::Norm(wanted), 1, 1e-6);
      const auto found = Assemble(optimizer.Gradients(), "gradient", plain, groups.Get("world"));
      for (const auto& [name, gradient] : wanted) EXPECT_LT(Distance(found.at(name), gradient), 1e-5) << name;
      optimizer.Update(kRate);
      EXPECT_FALSE(optimizer.has_gradients());
    }
  });
}

// The values after one update.
std::map<std::string, at::Tensor> ValuesAfter(const Grids& grids, CommunicatorSet& groups, const CaseOptions& options,
                                              const std::function<void(ShardedOptimizer&)>& update) {
  ModelRank rank(grids, groups, options);
  rank.RunStep(1);
  rank.optimizer().FinishGradients();
  update(rank.optimizer());
  return rank.Values();
}

TEST(ShardedOptimizer, TakesTheNumbersOfEachUpdate) {
  ForEachLayout([](const ParallelSizes& sizes, const Grids& grids, CommunicatorSet& groups) {
    SCOPED_TRACE(TextOf(sizes, {}));
    StepNumbers numbers{
        .learning_rate = 0.02, .beta1 = 0.7, .beta2 = 0.8, .eps = 0.1, .weight_decay = 0.5, .clip = 0.25};
    const auto found = ValuesAfter(grids, groups, {.zero = 2}, [&](auto& optimizer) { optimizer.Update(numbers); });
    const CaseOptions same = {.zero = 2,
                              .adamw = {.beta1 = 0.7, .beta2 = 0.8, .eps = 0.1, .weight_decay = 0.5, .clip = 0.25}};
    const auto wanted = ValuesAfter(grids, groups, same, [](auto& optimizer) { optimizer.Update(0.02); });
    for (const auto& [name, value] : found) EXPECT_TRUE(at::equal(value, wanted.at(name))) << name;
    numbers.decay_all = true;
    const auto all = ValuesAfter(grids, groups, {.zero = 2}, [&](auto& optimizer) { optimizer.Update(numbers); });
    const auto before = ModelRank(grids, groups, {.zero = 2}).Values();
    for (const auto& [name, value] : all) {
      const double decay = value.dim() > 1 ? 0 : 0.02 * 0.5;
      EXPECT_LT(Distance(value, found.at(name) - before.at(name) * decay), 1e-6) << name;
    }
  });
}

TEST(ShardedOptimizer, MeasuresGradientsWhoseSquaresDoNotFitIntoFp32) {
  const Grids grids = MakeGrids(TestJob().world(), {});
  const std::unique_ptr<CommunicatorSet> groups = MakeGroups(grids);
  ModelRank rank(grids, *groups, {.zero = 1});
  rank.BucketOf("b")->PrepareGradients();
  rank.BucketOf("b")->entries()[1]->weight.gradient.fill_(1e30);
  rank.RunStep(1);
  const GradientReport report = rank.optimizer().FinishGradients();
  EXPECT_TRUE(report.finite) << report.source;
  EXPECT_GT(report.norm, 1e30);
  EXPECT_LT(report.norm, 1e33);
}

}  // namespace
}  // namespace trireme
