// The fused elementwise operators against plain formulas: heads, RmsNorm, AddRmsNorm, SwiGlu.
#include <ATen/Parallel.h>

#include "ops/qkv_norm_rope/qkv_norm_rope.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/swiglu/swiglu.h"
#include "tests/ops/compare.h"

namespace trireme {
namespace {

at::Tensor PlainNorm(const at::Tensor& x, const at::Tensor& weight) {
  return x * (x.square().mean(-1, true) + 1e-6).rsqrt() * weight;
}

at::Tensor PlainTurn(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  const int64_t half = cosine.size(-1);
  const at::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  const at::Tensor c = cosine.unsqueeze(1), s = sine.unsqueeze(1);
  return at::cat({a * c - b * s, b * c + a * s, x.narrow(-1, 2 * half, x.size(-1) - 2 * half)}, -1);
}

RotaryTable Table(int64_t tokens, int64_t half) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < half; ++i) frequencies.push_back(1.0 / static_cast<double>(1 + i));
  return MakeRotaryTable(at::arange(tokens, at::kLong), frequencies);
}

Tensors PlainHeads(const at::Tensor& qkv, const Tensors& norms, const HeadShape& s, const RotaryTable& table) {
  const at::Tensor all = qkv.view({s.tokens(), -1, s.head_dim});
  const at::Tensor c = table.cosine.to(at::kDouble), n = table.sine.to(at::kDouble);
  const auto part = [&](int64_t begin, int64_t count, const at::Tensor& norm) {
    const at::Tensor x = all.narrow(1, begin, count);
    return PlainTurn(norm.defined() ? PlainNorm(x, norm) : x, c, n);
  };
  const auto by_group = [&](const at::Tensor& x) {
    return x.reshape({s.rows, s.length, s.kv_heads, -1, s.head_dim}).transpose(1, 2);
  };
  const at::Tensor query_norm = norms.empty() ? at::Tensor() : norms[0];
  const at::Tensor key_norm = norms.empty() ? at::Tensor() : norms[1];
  return {by_group(part(0, s.heads, query_norm)), by_group(part(s.heads, s.kv_heads, key_norm)).squeeze(3),
          by_group(all.narrow(1, s.heads + s.kv_heads, s.kv_heads)).squeeze(3)};
}

void CompareHeads(const HeadShape& s, bool normed, at::ScalarType type, const std::string& context) {
  Weight query_norm = TrainedWeight({s.head_dim}, type), key_norm = TrainedWeight({s.head_dim}, type);
  const RotaryTable table = Table(s.tokens(), s.head_dim / 2);
  Compare({.inputs = {Random({s.tokens(), s.width()}, type)},
           .weights = normed ? std::vector{&query_norm, &key_norm} : std::vector<Weight*>{},
           .op =
               [&](const Tensors& x) {
                 const Heads heads =
                     SplitHeads(x[0], s, normed ? &query_norm : nullptr, normed ? &key_norm : nullptr, table);
                 return Tensors{heads.query, heads.key, heads.value};
               },
           .plain = [&](const Tensors& x, const Tensors& w) { return PlainHeads(x[0], w, s, table); }},
          context + Concat(" heads ", s.heads, " on ", s.kv_heads, " of ", s.head_dim));
}

TEST(SplitHeads, IsThePlainFormula) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    for (const bool normed : {true, false}) {
      CompareHeads({.rows = 2, .length = 5, .heads = 6, .kv_heads = 2, .head_dim = 10}, normed, type, context);
      CompareHeads({.rows = 3, .length = 67, .heads = 4, .kv_heads = 4, .head_dim = 64}, normed, type, context);
      CompareHeads({.rows = 1, .length = 1, .heads = 3, .kv_heads = 1, .head_dim = 128}, normed, type, context);
    }
  });
}

TEST(SplitHeads, RotatesOnlyWhatTheTableCovers) {
  const HeadShape s{.rows = 1, .length = 9, .heads = 2, .kv_heads = 1, .head_dim = 12};
  const RotaryTable table = Table(9, 4);
  Compare({.inputs = {Random({9, s.width()})},
           .weights = {},
           .op =
               [&](const Tensors& x) {
                 const Heads heads = SplitHeads(x[0], s, nullptr, nullptr, table);
                 return Tensors{heads.query, heads.key, heads.value};
               },
           .plain = [&](const Tensors& x, const Tensors& w) { return PlainHeads(x[0], w, s, table); }},
          "fp32 fast");
}

TEST(SplitHeads, NoTokens) {
  const HeadShape s{.rows = 0, .length = 4, .heads = 2, .kv_heads = 1, .head_dim = 8};
  Weight norm = TrainedWeight({8});
  const at::Tensor qkv = Random({0, s.width()}).requires_grad_();
  const Heads heads = SplitHeads(qkv, s, &norm, &norm, Table(0, 4));
  torch::autograd::backward({heads.query}, {at::ones_like(heads.query)});
  EXPECT_EQ(qkv.grad().sizes(), qkv.sizes());
  EXPECT_EQ(norm.gradient.abs().sum().item<float>(), 0.0f);
}

TEST(RmsNorm, IsThePlainFormula) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{3, 4, 16}, {130, 33}, {1, 768}, {5, 3}}) {
      Weight weight = TrainedWeight({shape.back()}, type);
      Compare({.inputs = {Random(shape, type)},
               .weights = {&weight},
               .op = [&](const Tensors& x) { return Tensors{RmsNorm(x[0], weight, 1e-6)}; },
               .plain = [](const Tensors& x, const Tensors& w) { return Tensors{PlainNorm(x[0], w[0])}; }},
              context + Concat(" size ", shape.back()));
    }
  });
}

TEST(RmsNorm, RoundsAsTheReferenceDoes) {
  const Weight weight{"weight", Random({96}, at::kBFloat16), {}};
  const at::Tensor x = Random({50, 96}, at::kBFloat16);
  const at::Tensor fast = RmsNorm(x, weight, 1e-6);
  const ReferenceOnly guard;
  const at::Tensor plain = RmsNorm(x, weight, 1e-6);
  // Only a value right at a rounding boundary may round the other way.
  EXPECT_GT(fast.eq(plain).to(at::kDouble).mean().item<double>(), 0.999);
}

TEST(RmsNorm, AcceptsNonContiguousInputAndOtherWeightTypes) {
  Weight weight = TrainedWeight({16});  // fp32 under bf16 activations
  Compare({.inputs = {Random({16, 9}, at::kBFloat16).t()},
           .weights = {&weight},
           .op = [&](const Tensors& x) { return Tensors{RmsNorm(x[0], weight, 1e-6)}; },
           .plain = [](const Tensors& x, const Tensors& w) { return Tensors{PlainNorm(x[0], w[0])}; }},
          "bf16 with an fp32 weight");
}

TEST(AddRmsNorm, IsThePlainFormula) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{7, 24}, {65, 100}}) {
      Weight weight = TrainedWeight({shape.back()}, type);
      Compare({.inputs = {Random(shape, type), Random(shape, type)},
               .weights = {&weight},
               .op =
                   [&](const Tensors& x) {
                     const AddedNorm added = AddRmsNorm(x[0], x[1], weight, 1e-6);
                     return Tensors{added.sum, added.normalised};
                   },
               .plain =
                   [](const Tensors& x, const Tensors& w) {
                     const at::Tensor sum = x[0] + x[1];
                     return Tensors{sum, PlainNorm(sum, w[0])};
                   }},
              context);
    }
  });
}

TEST(CarriedRmsNorm, AddsTheGradientOfWhatItCarries) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    Weight weight = TrainedWeight({24}, type);
    Compare({.inputs = {Random({7, 24}, type)},
             .weights = {&weight},
             .op =
                 [&](const Tensors& x) {
                   const AddedNorm carried = CarriedRmsNorm(x[0], weight, 1e-6);
                   return Tensors{carried.sum, carried.normalised};
                 },
             .plain = [](const Tensors& x, const Tensors& w) { return Tensors{x[0] * 1, PlainNorm(x[0], w[0])}; }},
            context);
  });
}

TEST(AddRmsNorm, EitherResultMayGoUnused) {
  for (const bool use_sum : {true, false}) {
    Weight weight = TrainedWeight({8});
    Compare({.inputs = {Random({3, 8}), Random({3, 8})},
             .weights = use_sum ? std::vector<Weight*>{} : std::vector{&weight},
             .op =
                 [&](const Tensors& x) {
                   const AddedNorm added = AddRmsNorm(x[0], x[1], weight, 1e-6);
                   return Tensors{use_sum ? added.sum : added.normalised};
                 },
             .plain =
                 [&](const Tensors& x, const Tensors& w) {
                   const at::Tensor sum = x[0] + x[1];
                   return Tensors{use_sum ? sum : PlainNorm(sum, w[0])};
                 }},
            use_sum ? "sum alone" : "normalised alone");
  }
}

TEST(SwiGlu, IsThePlainFormula) {
  ForEveryVersion([](at::ScalarType type, const std::string& context) {
    for (const auto& [rows, ffn] : {std::pair<int64_t, int64_t>{6, 5}, {33, 100}, {1, 2304}}) {
      Compare({.inputs = {Random({rows, 2 * ffn}, type)},
               .weights = {},
               .op = [](const Tensors& x) { return Tensors{SwiGlu(x[0])}; },
               .plain = [n = ffn](
                            const Tensors& x,
                            const Tensors&) { return Tensors{at::silu(x[0].narrow(1, 0, n)) * x[0].narrow(1, n, n)}; }},
              context + Concat(" ffn ", ffn));
    }
  });
}

TEST(SwiGlu, SaturatesAtTheEndsOfTheRange) {
  const at::Tensor gate = at::tensor({-1e4f, -100.0f, -88.0f, 0.0f, 88.0f, 1e4f});
  const at::Tensor y = SwiGlu(at::cat({gate, at::ones(6)}).unsqueeze(0))[0];
  EXPECT_TRUE(at::allclose(y, at::silu(gate), 1e-6, 1e-30)) << y;
  EXPECT_TRUE(SwiGlu(at::full({1, 2}, NAN)).isnan().all().item<bool>());
}

TEST(Fused, NoTokens) {
  Weight weight = TrainedWeight({8});
  const at::Tensor x = Random({0, 8}).requires_grad_();
  torch::autograd::backward({RmsNorm(x, weight, 1e-6), SwiGlu(x)}, {at::ones({0, 8}), at::ones({0, 4})});
  EXPECT_EQ(x.grad().sizes(), x.sizes());
  EXPECT_EQ(weight.gradient.abs().sum().item<float>(), 0.0f);
}

TEST(Fused, ThreadsDoNotChangeTheBits) {
  const at::Tensor value = Random({500, 96}, at::kBFloat16);
  const auto run = [&](int threads) {
    at::set_num_threads(threads);
    at::manual_seed(5);
    Weight weight = TrainedWeight({96}, at::kBFloat16);
    const at::Tensor x = value.clone().requires_grad_();
    const at::Tensor y = SwiGlu(RmsNorm(x, weight, 1e-6));
    torch::autograd::backward({y}, {at::ones_like(y)});
    at::set_num_threads(1);
    return Tensors{y.detach(), x.grad(), weight.gradient};
  };
  const Tensors one = run(1), three = run(3);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].equal(three[i])) << i;
}

}  // namespace
}  // namespace trireme
