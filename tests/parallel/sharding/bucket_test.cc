// Buckets: what they hold when, what access to a freed one reports, what a group of one saves.
#include "parallel/sharding/bucket.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/core/comm/spmd.h"
#include "tests/parallel/sharding/sharding_cases.h"

namespace trireme {
namespace {

// Every rank is data parallel.
class BucketTest : public testing::Test {
 protected:
  BucketTest() : grids_(MakeGrids(TestJob().world(), {})), groups_(MakeGroups(grids_)) {
    for (const DeclaredLayer& layer : LayersOf(grids_, 0)) {
      for (const ParameterDeclaration& declaration : layer.parameters) {
        entries_.push_back({PlainParameter(declaration, declaration.name),
                            Placement(declaration, grids_),
                            {.name = declaration.name, .value = {}, .gradient = {}}});
        list_.push_back(&entries_.back());
        elements_ += (Elements(entries_.back().placement.LocalShape()) + 15) / 16 * 16;
      }
    }
    elements_alone_ = elements_;
    const int64_t multiple = 16 * data().size();
    elements_ = (elements_ + multiple - 1) / multiple * multiple;
  }

  std::unique_ptr<Bucket> Make(const BucketOptions& options) {
    auto bucket = std::make_unique<Bucket>("all", list_, data(), options);
    for (Weights::Entry& entry : entries_) {
      CopyToLocal(entry.placement, TestJob().rank(), InitialValue(entry.placement, options.type), entry.weight.value);
    }
    return bucket;
  }
  Communicator& data() { return groups_->Get("dp-cp"); }
  int size() { return data().size(); }

  void ExpectInitialValues(at::ScalarType type) {
    for (const Weights::Entry& entry : entries_) {
      EXPECT_TRUE(at::equal(entry.weight.value.to(at::kFloat), InitialValue(entry.placement, type)))
          << entry.weight.name;
    }
  }

  Grids grids_;
  std::unique_ptr<CommunicatorSet> groups_;
  std::deque<Weights::Entry> entries_;
  std::vector<Weights::Entry*> list_;
  int64_t elements_ = 0;        // with all padding
  int64_t elements_alone_ = 0;  // the same in a group of one
};

TEST_F(BucketTest, ValuesAreShardedOnlyAtZeroThree) {
  for (int zero = 0; zero <= 3; ++zero) {
    for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const int64_t whole = elements_ * (type == at::kFloat ? 4 : 2);
      const std::unique_ptr<Bucket> bucket = Make({.zero = zero, .type = type});
      EXPECT_EQ(bucket->memory().value_bytes, whole);
      bucket->SealValues();
      EXPECT_EQ(bucket->memory().value_bytes, zero == 3 ? whole / size() : whole);
      const int64_t masters = type == at::kFloat ? 0 : elements_ * 4 / (zero == 0 ? 1 : size());
      EXPECT_EQ(bucket->memory().master_bytes, masters);
      EXPECT_EQ(bucket->memory().gradient_bytes, 0);
      for (int round = 0; round < 2; ++round) {
        bucket->StartGather();
        bucket->StartGather();
        bucket->AwaitValues();
        ExpectInitialValues(type);
        EXPECT_EQ(bucket->memory().value_bytes, zero == 3 && size() > 1 ? whole + whole / size() : whole);
        bucket->FreeValues();
        EXPECT_EQ(bucket->memory().value_bytes, zero == 3 ? whole / size() : whole);
      }
    }
  }
}

TEST_F(BucketTest, AFrozenOneHasNoGradientsAndIsShardedAtZeroThree) {
  for (int zero = 0; zero <= 3; ++zero) {
    const std::unique_ptr<Bucket> bucket = Make({.zero = zero, .type = at::kBFloat16, .trained = false});
    bucket->SealValues();
    EXPECT_FALSE(entries_[0].weight.trained());
    EXPECT_EQ(bucket->memory().value_bytes, elements_ * 2 / (zero == 3 ? size() : 1));
    EXPECT_EQ(bucket->memory().master_bytes, 0);
    bucket->AwaitValues();
    ExpectInitialValues(at::kBFloat16);
    bucket->PrepareGradients();
    bucket->StartReduce();
    bucket->AwaitGradients();
    bucket->ZeroGradients();
    EXPECT_EQ(bucket->memory().gradient_bytes, 0);
  }
}

TEST_F(BucketTest, FullGradientsAreFreedByTheirReductionFromZeroTwoOn) {
  for (int zero = 0; zero <= 3; ++zero) {
    const std::unique_ptr<Bucket> bucket = Make({.zero = zero});
    bucket->SealValues();
    const int64_t whole = elements_ * 4;
    for (int micro_batch = 0; micro_batch < (zero >= 2 ? 3 : 1); ++micro_batch) {
      bucket->PrepareGradients();
      EXPECT_GE(bucket->memory().gradient_bytes, whole);
      for (Weights::Entry& entry : entries_) entry.weight.gradient_sum().add_(TestJob().rank() + 1);
      bucket->StartReduce();
    }
    bucket->AwaitGradients();
    int64_t wanted = whole;
    if (size() > 1 && zero == 1) wanted = whole + whole / size();
    if (size() > 1 && zero >= 2) wanted = whole / size();
    EXPECT_EQ(bucket->memory().gradient_bytes, wanted);
    // In a group of one there is one gradient that all micro batches accumulate into, and no reduction
    // changes it.
    const double sum = size() * (size() + 1) / 2.0 * (zero >= 2 ? 3 : 1);
    for (const FlatPart& part : bucket->parts()) {
      EXPECT_TRUE(bucket->shard_gradient().narrow(0, part.offset, part.elements.size()).eq(sum).all().item<bool>());
    }
    bucket->ZeroGradients();
    bucket->PrepareGradients();
    for (const Weights::Entry& entry : entries_) EXPECT_EQ(entry.weight.gradient_sum().abs().sum().item<double>(), 0);
    bucket->StartReduce();
    bucket->AwaitGradients();
    EXPECT_EQ(bucket->shard_gradient().abs().sum().item<double>(), 0);
  }
}

// Nobody asks for the gradient of a parameter that no micro batch came by, such as an expert's without tokens: what an
// earlier step left in its memory must not be reduced.
TEST_F(BucketTest, WhatNoMicroBatchTouchedHasNoGradientOfTheStepBefore) {
  for (int zero = 0; zero <= 3; ++zero) {
    const std::unique_ptr<Bucket> bucket = Make({.zero = zero});
    bucket->SealValues();
    for (int step = 0; step < 3; ++step) {
      bucket->PrepareGradients();
      for (size_t i = 0; i < entries_.size(); ++i) {
        if (step == 0 || i == static_cast<size_t>(step)) entries_[i].weight.gradient_sum().add_(1);
      }
      bucket->StartReduce();
      bucket->AwaitGradients();
      for (const FlatPart& part : bucket->parts()) {
        const bool touched = step == 0 || part.parameter == static_cast<size_t>(step);
        const at::Tensor found = bucket->shard_gradient().narrow(0, part.offset, part.elements.size());
        EXPECT_TRUE(found.eq(touched ? size() : 0).all().item<bool>()) << "zero " << zero << ", step " << step;
      }
      bucket->ZeroGradients();
    }
  }
}

TEST_F(BucketTest, SettlingFreesWithoutWaiting) {
  const std::unique_ptr<Bucket> bucket = Make({.zero = 2});
  bucket->SealValues();
  bucket->PrepareGradients();
  bucket->StartReduce();
  while (bucket->memory().gradient_bytes > elements_ * 4 / size()) bucket->SettleReduction();
  bucket->AwaitGradients();
  EXPECT_EQ(bucket->memory().gradient_bytes, elements_ * 4 / size());
}

// A forgotten gather or PrepareGradients must not access anyone else's memory.
TEST_F(BucketTest, AFreedViewHasNoStorageAndIsStillTrained) {
  const std::unique_ptr<Bucket> bucket = Make({.zero = 3});
  bucket->SealValues();
  const Weight& weight = entries_[0].weight;
  const at::Tensor value = weight.value;
  EXPECT_TRUE(weight.trained());
  EXPECT_EQ(weight.gradient.storage().data(), nullptr);
  EXPECT_EQ(value.storage().data() == nullptr, size() > 1);
  bucket->AwaitValues();
  EXPECT_TRUE(at::equal(value, InitialValue(entries_[0].placement, at::kFloat))) << "an old view is valid again";
  bucket->PrepareGradients();
  EXPECT_NE(weight.gradient.storage().data(), nullptr);
  bucket->StartReduce();
  EXPECT_EQ(weight.gradient.storage().data() == nullptr, size() > 1);
}

TEST_F(BucketTest, InAGroupOfOneEverythingIsTheWholeBuffer) {
  Communicator& alone = groups_->Get("tp");
  ASSERT_EQ(alone.size(), 1);
  for (int zero = 0; zero <= 3; ++zero) {
    const auto bucket = std::make_unique<Bucket>("all", list_, alone, BucketOptions{.zero = zero});
    bucket->SealValues();
    bucket->PrepareGradients();
    bucket->StartReduce();
    bucket->AwaitGradients();
    EXPECT_EQ(bucket->shard_master().data_ptr(), entries_[0].weight.value.data_ptr());
    EXPECT_EQ(bucket->shard_gradient().data_ptr(), entries_[0].weight.gradient.data_ptr());
    EXPECT_EQ(bucket->memory().value_bytes, elements_alone_ * 4);
    EXPECT_EQ(bucket->memory().gradient_bytes, elements_alone_ * 4);
    EXPECT_EQ(bucket->memory().master_bytes, 0);
    EXPECT_FALSE(bucket->BeginValues().defined());
    bucket->shard_master().fill_(2);
    bucket->EndValues();
    bucket->AwaitValues();
    EXPECT_TRUE(entries_[0].weight.value.eq(2).all().item<bool>());
  }
}

}  // namespace
}  // namespace trireme
