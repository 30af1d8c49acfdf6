// Dispatch and combine over real ranks: against the computation through all experts on one rank, and
// <A x, y> == <x, Aᵀ y>, in integers, so that the sums are exact.
#include "parallel/experts/dispatch.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "parallel/experts/token_shard.h"
#include "parallel/tensor/collectives.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

constexpr int64_t kExperts = 8, kSize = 5, kTopK = 3;

class DispatchTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const int world = TestJob().world();
    const Grids grids = MakeGrids(world, {.tensor = world});
    const GroupPlan plan(grids, {{.name = "all", .axes = {"tp"}, .buffer_mb = 16}});
    groups_ = std::make_unique<CommunicatorSet>(TestJob(), TestDevice(), plan, CommOptions{.host_memory = true});
  }
  static void TearDownTestSuite() { groups_.reset(); }
  static Communicator& Group() { return groups_->Get("all"); }

  static inline std::unique_ptr<CommunicatorSet> groups_;
};

// A rank's tokens: a different number on each, none on rank 1.
int64_t TokensOf(int rank) { return rank == 1 ? 0 : 4 + rank; }

at::Tensor Numbers(at::IntArrayRef shape, int64_t salt) {
  const int64_t count = c10::multiply_integers(shape);
  return ((at::arange(count, at::kFloat) * 7 + static_cast<double>(salt) * 13).remainder(11) - 5).view(shape);
}

at::Tensor Choices(int rank) {
  const int64_t count = TokensOf(rank) * kTopK;
  at::Tensor chosen = (at::arange(count, at::kLong) * 3 + rank).remainder(kExperts - 1);  // the last gets nothing
  if (count > 4) chosen[4] = -1;
  return chosen.view({-1, kTopK});
}

double OverRanks(const at::Tensor& a, const at::Tensor& b, Communicator& group) {
  const at::Tensor sum = (a * b).sum().view({1});
  AllReduce(sum, group);
  return sum.item<double>();
}

TEST_F(DispatchTest, DispatchAndCombineAreAdjointAndSumOverCopies) {
  Communicator& group = Group();
  for (const int etp : {1, 2}) {
    if (group.size() % etp != 0) continue;
    SCOPED_TRACE(Concat("etp ", etp));
    const ExpertParallel parallel{group, group.size() / etp, etp};
    const auto way = std::make_shared<const Dispatch>(Choices(group.rank()), kExperts, parallel);
    const at::Tensor x = Numbers({TokensOf(group.rank()), kSize}, group.rank()).requires_grad_();
    const at::Tensor rows = Dispatch::ToExperts(way, x);
    EXPECT_EQ(rows.size(0), way->ends()->host().back());
    const at::Tensor y = Numbers(rows.sizes(), 40 + group.rank());
    const at::Tensor back = torch::autograd::grad({rows}, {x}, {y})[0];
    EXPECT_EQ(OverRanks(rows, y, group), OverRanks(x, back, group));

    const at::Tensor leaf = y.clone().requires_grad_();
    const at::Tensor combined = Dispatch::FromExperts(way, leaf);
    EXPECT_TRUE(combined.equal(back));  // one is the other's adjoint
    const at::Tensor z = Numbers(combined.sizes(), 3 + group.rank());
    const at::Tensor spread = torch::autograd::grad({combined}, {leaf}, {z})[0];
    EXPECT_EQ(OverRanks(combined, z, group), OverRanks(leaf, spread, group));
  }
}

// Expert e multiplies by e + 1: the result is known without any exchange.
TEST_F(DispatchTest, TokensReachTheirExpertsWithTheirWeights) {
  Communicator& group = Group();
  for (const int etp : {1, 2}) {
    if (group.size() % etp != 0) continue;
    const ExpertParallel parallel{group, group.size() / etp, etp};
    const at::Tensor chosen = Choices(group.rank()), x = Numbers({TokensOf(group.rank()), kSize}, group.rank());
    const at::Tensor weights = Numbers(chosen.sizes(), 5);
    const auto way = std::make_shared<const Dispatch>(chosen, kExperts, parallel);
    at::Tensor rows = Dispatch::ToExperts(way, x) * Dispatch::WeightsToExperts(way, weights).unsqueeze(1);
    const int64_t held = kExperts / parallel.expert, first = group.rank() / etp * held;
    int64_t begin = 0;
    for (int64_t e = 0; e < held; ++e) {
      const int64_t end = way->ends()->host().at(e);
      rows.narrow(0, begin, end - begin).mul_(static_cast<double>(first + e + 1));
      begin = end;
    }
    const at::Tensor factor = ((chosen + 1) * weights).sum(1).to(at::kFloat) * etp;  // -1 + 1 is nothing
    EXPECT_TRUE(Dispatch::FromExperts(way, rows).equal(x * factor.unsqueeze(1)));
  }
}

std::vector<float> OnHost(const at::Tensor& counts) {
  const at::Tensor numbers = counts.to(at::kFloat).contiguous();
  return {numbers.data_ptr<float>(), numbers.data_ptr<float>() + numbers.numel()};
}

// What a token's rows are at the experts, and what comes back to it, does not depend on who knew the sizes.
TEST_F(DispatchTest, ExpectedSizesGiveEachExpertTheSameRows) {
  Communicator& group = Group();
  for (const int etp : {1, 2}) {
    if (group.size() % etp != 0) continue;
    SCOPED_TRACE(Concat("etp ", etp));
    const ExpertParallel parallel{group, group.size() / etp, etp};
    const at::Tensor chosen = Choices(group.rank());
    ExpectedRows expected;
    const auto exact =
        std::make_shared<const Dispatch>(chosen, kExperts, parallel, DispatchOptions{.expected = &expected});
    EXPECT_TRUE(exact->ends()->on_host());
    expected.Learn(OnHost(expected.largest()));
    const auto way =
        std::make_shared<const Dispatch>(chosen, kExperts, parallel, DispatchOptions{.expected = &expected});
    ASSERT_FALSE(way->ends()->on_host());
    EXPECT_EQ(way->ends()->host(), exact->ends()->host());
    EXPECT_TRUE(way->counts().equal(exact->counts()));
    EXPECT_TRUE(way->received().equal(exact->received()));

    const at::Tensor x = Numbers({chosen.size(0), kSize}, group.rank()).requires_grad_();
    const at::Tensor wanted = Dispatch::ToExperts(exact, x), rows = Dispatch::ToExperts(way, x);
    const int64_t used = wanted.size(0), left = rows.size(0) - used;
    ASSERT_GT(left, 0);
    EXPECT_TRUE(rows.narrow(0, 0, used).equal(wanted));
    EXPECT_TRUE(rows.narrow(0, used, left).eq(0).all().item<bool>());
    const at::Tensor y = Numbers(wanted.sizes(), 40 + group.rank());
    // What an operator leaves in rows of no expert reaches nobody.
    const at::Tensor padded = at::cat({y, at::full({left, kSize}, std::nan(""))});
    EXPECT_TRUE(Dispatch::FromExperts(way, padded).equal(Dispatch::FromExperts(exact, y)));
    EXPECT_TRUE(torch::autograd::grad({rows}, {x}, {padded})[0].equal(torch::autograd::grad({wanted}, {x}, {y})[0]));
    const at::Tensor weights = Numbers(chosen.sizes(), 5);
    EXPECT_TRUE(
        Dispatch::WeightsToExperts(way, weights).narrow(0, 0, used).equal(Dispatch::WeightsToExperts(exact, weights)));
  }
}

// All tokens choose the first expert: its rank has room for as many as there would be of none.
TEST_F(DispatchTest, RowsWithoutRoomAreLeftOutAndNoticed) {
  Communicator& group = Group();
  constexpr int64_t kTokens = 50;
  const ExpertParallel parallel{group, group.size(), 1};
  const at::Tensor chosen = at::tensor({0, 1}, at::kLong).expand({kTokens, 2}).contiguous();
  ExpectedRows expected;
  expected.Learn(std::vector<float>(group.size() * group.size(), 0));
  const std::vector<int64_t> rooms = expected.rooms();
  const int64_t room = rooms.front();
  ASSERT_LT(room, 2 * kTokens);
  const auto way = std::make_shared<const Dispatch>(chosen, kExperts, parallel, DispatchOptions{.expected = &expected});
  const at::Tensor over = expected.largest().gt(at::tensor(rooms, at::kLong)).view({group.size(), group.size()});
  EXPECT_EQ(over.sum().item<int64_t>(), group.size());
  EXPECT_TRUE(over.select(1, 0).all().item<bool>());
  // Rows of the first expert, then of the second, as long as there is room; their identity comes back.
  const at::Tensor x = Numbers({kTokens, kSize}, group.rank());
  const at::Tensor back = Dispatch::FromExperts(way, Dispatch::ToExperts(way, x));
  const at::Tensor token = at::arange(kTokens, at::kLong);
  const at::Tensor arrived = token.lt(room).to(at::kFloat) + token.lt(room - kTokens).to(at::kFloat);
  EXPECT_TRUE(back.equal(x * arrived.unsqueeze(1)));
}

TEST_F(DispatchTest, TokenShardsAndTheirAdjoints) {
  Communicator& group = Group();
  const TensorParallel parallel{group, /*sequence=*/false};
  const at::Tensor whole = Numbers({12, kSize}, 1).requires_grad_();  // the same on every rank
  const int64_t share = 12 / group.size();
  const at::Tensor mine = TakeShard(whole, parallel);
  EXPECT_TRUE(mine.equal(whole.narrow(0, group.rank() * share, share)));
  EXPECT_TRUE(GiveShard(mine, parallel).equal(whole));
  // Each rank has the gradient of its shard; the gradient of a replicated tensor is complete.
  const at::Tensor y = Numbers({share, kSize}, 9 + group.rank());
  const at::Tensor back = torch::autograd::grad({mine}, {whole}, {y})[0];
  EXPECT_TRUE(back.equal(AllGatherRows(y, group)));
}

}  // namespace
}  // namespace trireme
