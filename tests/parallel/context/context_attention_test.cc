// Attention over ranks and packed documents against the plain formula in fp64 on all tokens, forward and
// backward: ring, Ulysses and hybrid, the fast version and the reference, with a value head size that differs
// from the key's, with and without sinks.
#include "parallel/context/context_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "ops/choose.h"
#include "parallel/tensor/collectives.h"
#include "tests/core/comm/spmd.h"

namespace trireme {
namespace {

constexpr int64_t kRows = 2, kLength = 48, kKvHeads = 2, kGroup = 2, kDim = 8, kValueDim = 6;
const std::vector<Document> kDocuments = {
    {0, 7}, {7, 30}, {30, 44, {7, 19}}, {48, 96}};  // the first row ends in padding; two documents share a prefix
const double kScale = 1 / std::sqrt(8.0);

class ContextAttentionTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const int world = TestJob().world();
    const Grids grids = MakeGrids(world, {.context = world});
    const GroupPlan plan(grids, {{.name = "cp", .axes = {"cp"}, .buffer_mb = 16}});
    groups_ = std::make_unique<CommunicatorSet>(TestJob(), TestDevice(), plan, CommOptions{.host_memory = true});
  }
  static void TearDownTestSuite() { groups_.reset(); }
  static Communicator& Group() { return groups_->Get("cp"); }

  static inline std::unique_ptr<CommunicatorSet> groups_;
};

struct Tokens {  // [rows · length, heads, dim], the same on every rank
  at::Tensor query, key, value, gradient;
};

Tokens AllTokens() {
  at::manual_seed(7);
  const auto random = [](int64_t heads, int64_t dim) { return at::randn({kRows * kLength, heads, dim}, at::kDouble); };
  return {random(kKvHeads * kGroup, kDim), random(kKvHeads, kDim), random(kKvHeads, kValueDim),
          random(kKvHeads * kGroup, kValueDim)};
}

struct Answer {
  at::Tensor output, query, key, value;  // [rows · length, heads · dim]
  at::Tensor sinks;                      // [heads]; undefined: there are none
};

// Which of the keys before a query's own are within its window, by their positions: those of a document continue its
// prefix's.
at::Tensor Near(int64_t window) {
  at::Tensor positions = at::arange(kRows * kLength);
  at::Tensor near = at::zeros({kRows * kLength, kRows * kLength}, at::kBool);
  for (const Document& d : kDocuments) {
    at::Tensor own = positions.clone();
    own.narrow(0, d.begin, d.size()).copy_(at::arange(d.size()) + d.prefix.size());
    own.narrow(0, d.prefix.begin, d.prefix.size()).copy_(at::arange(d.prefix.size()));
    const at::Tensor queries = own.narrow(0, d.begin, d.size()).unsqueeze(1);
    near.narrow(0, d.begin, d.size()).copy_(queries - own.unsqueeze(0) < window);
  }
  return near;
}

Answer Plain(const Tokens& tokens, int64_t window, const at::Tensor& given_sinks = {}) {
  at::Tensor sees = at::zeros({kRows * kLength, kRows * kLength}, at::kBool);
  for (const Document& d : kDocuments) {
    sees.narrow(0, d.begin, d.size()).narrow(1, d.begin, d.size()).copy_(at::ones({d.size(), d.size()}).tril());
    sees.narrow(0, d.begin, d.size()).narrow(1, d.prefix.begin, d.prefix.size()).fill_(true);
  }
  if (window > 0) sees = sees.logical_and(Near(window));
  const at::Tensor real = sees.any(1);
  const at::Tensor q = tokens.query.clone().requires_grad_(), k = tokens.key.clone().requires_grad_();
  const at::Tensor v = tokens.value.clone().requires_grad_();
  const auto heads = [](const at::Tensor& x) { return x.repeat_interleave(kGroup, 1).transpose(0, 1); };
  const at::Tensor scores = (q.transpose(0, 1).matmul(heads(k).transpose(1, 2)) * kScale)
                                .masked_fill(sees.logical_not(), -std::numeric_limits<double>::infinity());
  const at::Tensor sinks = given_sinks.defined() ? given_sinks.clone().requires_grad_() : at::Tensor();
  const at::Tensor all =
      sinks.defined() ? at::cat({scores, sinks.view({-1, 1, 1}).expand({-1, scores.size(1), 1})}, -1) : scores;
  const at::Tensor p = at::softmax(all, -1).nan_to_num().narrow(-1, 0, scores.size(2));  // padding sees nothing
  const at::Tensor output = p.matmul(heads(v)).transpose(0, 1);
  // softmax over no keys is NaN, and so would be its gradient: only real tokens take part.
  const at::Tensor chosen = real.nonzero().squeeze(1);
  torch::autograd::backward({output.index_select(0, chosen)}, {tokens.gradient.index_select(0, chosen)});
  const auto lines = [](const at::Tensor& x) { return x.flatten(1).nan_to_num(); };
  return {lines(output.detach()), lines(q.grad()), lines(k.grad()), lines(v.grad()),
          sinks.defined() ? sinks.grad() : at::Tensor()};
}

// [tokens, heads, dim] to [rows, kv_heads, length, group, dim].
at::Tensor Grouped(const at::Tensor& x) {
  return x.reshape({kRows, -1, kKvHeads, kGroup, x.size(2)}).transpose(1, 2).contiguous();
}
at::Tensor Single(const at::Tensor& x) {
  return x.reshape({kRows, -1, kKvHeads, x.size(2)}).transpose(1, 2).contiguous();
}

void ExpectEqual(const at::Tensor& found, const at::Tensor& wanted, const char* what) {
  EXPECT_LT((found.to(at::kDouble) - wanted).abs().max().item<double>(), 2e-5) << what;
}

void ExpectPlain(const ContextParallel& parallel, const Tokens& tokens, const Answer& answer, int64_t window,
                 const Weight* sinks = nullptr) {
  const auto plan = std::make_shared<const ContextPlan>(kRows, kLength, kDocuments, parallel.split());
  const at::Tensor mine = at::tensor(plan->LocalTokens(), at::kLong);
  const auto local = [&](const at::Tensor& x) { return x.index_select(0, mine).to(at::kFloat); };
  const at::Tensor q = Grouped(local(tokens.query)).requires_grad_(), k = Single(local(tokens.key)).requires_grad_();
  const at::Tensor v = Single(local(tokens.value)).requires_grad_();
  const AttentionRule rule{.scale = kScale, .window = window, .sinks = sinks};
  const at::Tensor output = ContextAttention({q, k, v}, rule, plan, parallel);
  ExpectEqual(output, local(answer.output).to(at::kDouble), "output");
  output.backward(local(tokens.gradient).flatten(1));
  const auto lines = [](const at::Tensor& x) { return x.transpose(1, 2).reshape({x.size(0) * x.size(2), -1}); };
  ExpectEqual(lines(q.grad()), local(answer.query).to(at::kDouble), "query");
  ExpectEqual(lines(k.grad()), local(answer.key).to(at::kDouble), "key");
  ExpectEqual(lines(v.grad()), local(answer.value).to(at::kDouble), "value");
  if (sinks == nullptr) return;
  at::Tensor sum = sinks->gradient;
  AllReduce(sum, parallel.group);
  ExpectEqual(sum, answer.sinks, "sinks");
}

TEST_F(ContextAttentionTest, EqualsPlainAttentionOnAllTokens) {
  const Tokens tokens = AllTokens();
  for (const int64_t window : {0, 1, 5, 17, 40}) {
    const Answer answer = Plain(tokens, window);
    for (int ulysses = 1; ulysses <= Group().size(); ulysses *= 2) {  // 4 ranks share 2 key-value heads
      const ContextParallel parallel{Group(), Group().size() / ulysses, ulysses};
      SCOPED_TRACE(Concat("ulysses ", ulysses, ", window ", window));
      ExpectPlain(parallel, tokens, answer, window);
      const ReferenceOnly guard;
      ExpectPlain(parallel, tokens, answer, window);
    }
  }
}

// Each rank has the sinks of all heads, and its gradients are parts of a sum.
TEST_F(ContextAttentionTest, WithSinksEqualsPlainAttentionOnAllTokens) {
  const Tokens tokens = AllTokens();
  const at::Tensor scores = at::randn({kKvHeads * kGroup}, at::kDouble);
  for (const int64_t window : {0, 17}) {
    const Answer answer = Plain(tokens, window, scores);
    for (int ulysses = 1; ulysses <= Group().size(); ulysses *= 2) {
      const ContextParallel parallel{Group(), Group().size() / ulysses, ulysses};
      SCOPED_TRACE(Concat("ulysses ", ulysses, ", window ", window));
      const Weight sinks{
          .name = "sinks", .value = scores.to(at::kFloat), .gradient = at::zeros({scores.size(0)}, at::kFloat)};
      ExpectPlain(parallel, tokens, answer, window, &sinks);
      sinks.gradient.zero_();
      const ReferenceOnly guard;
      ExpectPlain(parallel, tokens, answer, window, &sinks);
    }
  }
}

// The output is recomputed for whichever comes first, and once; over several ranks it is saved.
TEST_F(ContextAttentionTest, GivesTheOutputAgainOnOneRank) {
  const ContextParallel parallel{Group(), Group().size(), 1};
  const Tokens tokens = AllTokens();
  const Answer answer = Plain(tokens, 5);
  for (const bool gradient_first : {false, true}) {
    const auto plan = std::make_shared<const ContextPlan>(kRows, kLength, kDocuments, parallel.split());
    const at::Tensor mine = at::tensor(plan->LocalTokens(), at::kLong);
    const auto local = [&](const at::Tensor& x) { return x.index_select(0, mine).to(at::kFloat); };
    const at::Tensor q = Grouped(local(tokens.query)).requires_grad_();
    const Heads heads{q, Single(local(tokens.key)), Single(local(tokens.value))};
    const Attended attended = ContextAttentionAgain(heads, {kScale, 5}, plan, parallel);
    ASSERT_EQ(static_cast<bool>(attended.again), Group().size() == 1);
    const at::Tensor gradient = local(tokens.gradient).flatten(1);
    at::Tensor again = attended.output.detach();
    if (attended.again && !gradient_first) again = attended.again();
    attended.output.backward(gradient);
    if (attended.again && gradient_first) again = attended.again();
    ExpectEqual(again, local(answer.output).to(at::kDouble), "again");
    ExpectEqual(q.grad().transpose(1, 2).reshape({again.size(0), -1}), local(answer.query).to(at::kDouble), "query");
  }
}

}  // namespace
}  // namespace trireme
