#include "parallel/layers/kept_features.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr int64_t kOutputs = 3, kSets = 2;
const ContentDigest kOne = DigestOfContent({"one"}), kTwo = DigestOfContent({"two"}),
                    kThree = DigestOfContent({"three"});

// [sets, tokens, outputs], different for each image.
at::Tensor Features(int64_t tokens, double first) {
  return at::arange(first, first + static_cast<double>(kSets * tokens * kOutputs), at::kFloat)
      .view({kSets, tokens, kOutputs});
}

at::Tensor Together(const std::vector<at::Tensor>& images) { return at::cat(images, 1).flatten(0, 1); }

TEST(KeptFeatures, ImagesThatComeAgainAreNotComputed) {
  KeptFeatures kept(1 << 20);
  EXPECT_EQ(kept.Missing({kOne, kTwo}), (std::vector<size_t>{0, 1}));
  const at::Tensor one = Features(2, 0), two = Features(1, 100), three = Features(3, 200);
  EXPECT_TRUE(at::equal(kept.Join(Together({one, two}), {0, 1}, {kOne, kTwo}, {2, 1}, kSets), Together({one, two})));
  EXPECT_EQ(kept.TakeUses(), 0);
  EXPECT_EQ(kept.Missing({kTwo, kThree, kOne}), std::vector<size_t>{1});
  EXPECT_TRUE(at::equal(kept.Join(Together({three}), {1}, {kTwo, kThree, kOne}, {1, 3, 2}, kSets),
                        Together({two, three, one})));
  EXPECT_EQ(kept.TakeUses(), 2);
  EXPECT_TRUE(at::equal(kept.Join(at::empty({0, kOutputs}), {}, {kThree}, {3}, kSets), Together({three})));
  EXPECT_EQ(kept.TakeUses(), 1);
  EXPECT_EQ(kept.TakeUses(), 0);
}

TEST(KeptFeatures, WhatHasNoRoomIsComputedEachTime) {
  const at::Tensor one = Features(2, 0), two = Features(2, 100), three = Features(1, 200);
  KeptFeatures kept(static_cast<int64_t>(one.nbytes() + three.nbytes()));
  kept.Join(Together({one, two, three}), {0, 1, 2}, {kOne, kTwo, kThree}, {2, 2, 1}, kSets);
  EXPECT_EQ(kept.Missing({kOne, kTwo, kThree}), std::vector<size_t>{1});
}

TEST(KeptFeatures, AnImageMayBeThereTwice) {
  KeptFeatures kept(1 << 20);
  const at::Tensor one = Features(2, 0);
  EXPECT_TRUE(at::equal(kept.Join(Together({one, one}), {0, 1}, {kOne, kOne}, {2, 2}, kSets), Together({one, one})));
  EXPECT_TRUE(at::equal(kept.Join(at::empty({0, kOutputs}), {}, {kOne, kOne}, {2, 2}, kSets), Together({one, one})));
}

// They do not follow what the tower's memory is used for afterwards.
TEST(KeptFeatures, AreCopies) {
  KeptFeatures kept(1 << 20);
  const at::Tensor one = Features(1, 0), computed = Together({one}).clone();
  kept.Join(computed, {0}, {kOne}, {1}, kSets);
  computed.fill_(7);
  EXPECT_TRUE(at::equal(kept.Join(at::empty({0, kOutputs}), {}, {kOne}, {1}, kSets), Together({one})));
}

}  // namespace
}  // namespace trireme
