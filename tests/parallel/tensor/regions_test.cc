// Each boundary of a tensor-parallel region with its adjoint: <A x, y> == <x, Aᵀ y> over all ranks, with
// integer products, so that the sums are exact.
#include "parallel/tensor/regions.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <memory>

#include "parallel/tensor/collectives.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

constexpr int64_t kTokens = 12, kSize = 5;  // divisible by every number of ranks that is tested

class Regions : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const Grids grids = MakeGrids(TestJob().world(), {.tensor = TestJob().world()});
    const GroupPlan plan(grids, {{.name = "tp", .axes = {"tp"}, .buffer_mb = 16}});
    groups_ = std::make_unique<CommunicatorSet>(TestJob(), TestDevice(), plan, CommOptions{.host_memory = true});
  }
  static void TearDownTestSuite() { groups_.reset(); }
  static Communicator& Group() { return groups_->Get("tp"); }

  static inline std::unique_ptr<CommunicatorSet> groups_;
};

// The same on every rank if `salt` is the same.
at::Tensor Numbers(int64_t rows, int64_t salt) {
  const at::Tensor places = at::arange(rows * kSize, at::kFloat) * 7 + static_cast<double>(salt) * 13;
  return places.remainder(11).view({rows, kSize}) - 5;
}

double Dot(const at::Tensor& a, const at::Tensor& b) { return (a * b).sum().item<double>(); }

double SumOverRanks(double mine, Communicator& group) {
  const at::Tensor sum = at::tensor({mine}, at::kFloat);
  AllReduce(sum, group);
  return sum.item<double>();
}

struct Spaces {  // whether each rank holds a part of the vector, or all ranks hold the same one
  bool input_parts;
  bool output_parts;
};

template <typename Border>
void ExpectAdjoint(Border border, const at::Tensor& x, const at::Tensor& y, const Spaces& spaces, Communicator& group) {
  const at::Tensor leaf = x.clone().set_requires_grad(true);
  const at::Tensor image = border(leaf);
  ASSERT_EQ(image.sizes(), y.sizes());
  const at::Tensor back = torch::autograd::grad({image}, {leaf}, {y})[0];
  const auto inner = [&](double mine, bool parts) { return parts ? SumOverRanks(mine, group) : mine; };
  EXPECT_EQ(inner(Dot(image, y), spaces.output_parts), inner(Dot(x, back), spaces.input_parts));
  EXPECT_NE(Dot(back, back), 0);
}

TEST_F(Regions, BoundariesAndTheirAdjoints) {
  Communicator& group = Group();
  const int64_t share = kTokens / group.size(), rank = group.rank();
  for (const bool sequence : {true, false}) {
    SCOPED_TRACE(sequence ? "sequence parallel" : "whole tokens");
    const TensorParallel parallel{group, sequence};
    const auto enter = [&](const at::Tensor& x) { return GatherToTensorRegion(x, parallel); };
    const auto leave = [&](const at::Tensor& x) { return ReduceFromTensorRegion(x, parallel); };
    // Inside a region each rank has its own part of the gradient, hence of y.
    ExpectAdjoint(enter, sequence ? Numbers(share, rank) : Numbers(kTokens, 50), Numbers(kTokens, 3 + rank),
                  {.input_parts = sequence, .output_parts = true}, group);
    ExpectAdjoint(leave, Numbers(kTokens, 3 + rank), sequence ? Numbers(share, rank) : Numbers(kTokens, 50),
                  {.input_parts = true, .output_parts = sequence}, group);
  }
}

TEST_F(Regions, GatherGathersAndReduceSums) {
  Communicator& group = Group();
  const int64_t share = kTokens / group.size();
  const at::Tensor whole = Numbers(kTokens, 1);
  const TensorParallel parallel{group, true};
  EXPECT_TRUE(GatherToTensorRegion(whole.narrow(0, group.rank() * share, share), parallel).equal(whole));
  EXPECT_TRUE(
      ReduceFromTensorRegion(whole, parallel).equal(whole.narrow(0, group.rank() * share, share) * group.size()));
  EXPECT_TRUE(ReduceFromTensorRegion(whole, {group, false}).equal(whole * group.size()));
}

}  // namespace
}  // namespace trireme
