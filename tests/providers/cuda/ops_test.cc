// On device cuda: every implementation that is made for a GPU against the operator's reference on the same
// GPU, values, gradients of inputs and of weights, in fp32 and bf16, on shapes with and without whole packs
// of 16 bytes. Packed weights and products in FP8 are in packed_ops_test.cc.
#include <cmath>
#include <limits>
#include <memory>

#include "ops/attention/attention.h"
#include "ops/attention/cached_attention.h"
#include "ops/attention/packed_attention.h"
#include "ops/attention/paged_attention.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/dropout_add/dropout_add.h"
#include "ops/flat/accumulate.h"
#include "ops/flat/adamw.h"
#include "ops/flat/gradient_norm.h"
#include "ops/flat/split_master.h"
#include "ops/grouped_linear/grouped_linear.h"
#include "ops/linear/linear.h"
#include "ops/low_rank/low_rank.h"
#include "ops/moe_permute/expert_positions.h"
#include "ops/moe_permute/moe_permute.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/router/router.h"
#include "ops/swiglu/swiglu.h"
#include "ops/swiglu/weighted_swiglu.h"
#include "tests/providers/cuda/ops_fixture.h"

namespace trireme {
namespace {

INSTANTIATE_TEST_SUITE_P(Types, CudaOps, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& type) { return type.param == at::kFloat ? "fp32" : "bf16"; });

TEST_P(CudaOps, RmsNorm) {
  for (const int64_t columns : {8, 100, 127, 896, 3584, 8192}) {
    Compare("rms_norm", "cuda", Tolerance(), [&] {
      const at::Tensor x = Leaf({77, columns}), branch = Leaf({77, columns});
      const Weight weight = TrainedWeight({columns});
      const AddedNorm added = AddRmsNorm(x, branch, weight, 1e-6);
      Tensors all = Differentiate({added.sum, added.normalised}, {x, branch});
      for (const at::Tensor& one : Differentiate({RmsNorm(x, weight, 1e-6)}, {x})) all.push_back(one);
      all.push_back(weight.gradient);
      return all;
    });
  }
}

TEST_P(CudaOps, SwiGlu) {
  for (const int64_t ffn : {1, 12, 4864, 18944}) {
    Compare("swiglu", "cuda", Tolerance(), [&] {
      const at::Tensor x = Leaf({33, 2 * ffn});
      return Differentiate({SwiGlu(x)}, {x});
    });
  }
}

TEST_P(CudaOps, WeightedSwiGlu) {
  for (const int64_t ffn : {1, 12, 768, 1000}) {
    Compare("weighted_swiglu", "cuda", Tolerance(), [&] {
      const at::Tensor x = Leaf({77, 2 * ffn}), weights = at::rand({77}, options_).set_requires_grad(true);
      return Differentiate({WeightedSwiGlu(x, weights)}, {x, weights});
    });
  }
}

TEST_P(CudaOps, Permute) {
  const int64_t tokens = 300, k = 3, rows = tokens * k;
  at::Tensor positions = at::randperm(rows, options_.dtype(at::kLong)).view({tokens, k});
  for (const bool gaps : {false, true}) {
    if (gaps) positions = positions.masked_fill(positions.remainder(7).eq(0), -1);
    for (const int64_t columns : {1, 12, 2048, 5000}) {
      Compare("moe_permute", "cuda", Tolerance(), [&] {
        return Tensors{SpreadRows(Random({tokens, columns}), positions, rows, gaps),
                       SumRows(Random({rows, columns}), positions), SumRows(Random({2 * rows, columns}), positions, 2)};
      });
    }
  }
}

TEST_P(CudaOps, ExpertPositions) {
  if (GetParam() != at::kFloat) return;  // of integers
  for (const int64_t experts : {1, 8, 128, 1000}) {
    for (const int64_t tokens : {0, 1, 500, 5000}) {
      const at::Tensor chosen = at::randint(-1, experts, {tokens, 4}, options_.dtype(at::kLong));
      const auto found = PositionsOnDevice(chosen, experts);
      ASSERT_TRUE(found.has_value());
      // A stable sort by expert, choices of no expert first.
      const at::Tensor flat = chosen.flatten();
      const at::Tensor order = std::get<1>(flat.sort(/*stable=*/true, 0, /*descending=*/false));
      const at::Tensor none = flat.lt(0).sum();
      const at::Tensor places = at::arange(flat.numel(), flat.options());
      const at::Tensor wanted = at::empty_like(flat).scatter_(0, order, places);
      EXPECT_TRUE(at::equal(found->positions.flatten(), (wanted - none).masked_fill(flat.lt(0), -1)));
      const at::Tensor counts = at::bincount(flat + 1, {}, experts + 1).narrow(0, 1, experts);
      EXPECT_TRUE(at::equal(found->counts, counts));
    }
  }
}

TEST_P(CudaOps, Router) {
  if (GetParam() != at::kFloat) return;  // routers compute in fp32
  using Scores = RouterRule::Scores;
  for (const RouterRule& rule :
       {RouterRule{.experts = 128, .top_k = 8, .normalise = true}, RouterRule{.experts = 60, .top_k = 4},
        RouterRule{.experts = 256,
                   .top_k = 8,
                   .scores = Scores::kSigmoid,
                   .correction_bias = true,
                   .normalise = true,
                   .normalise_eps = 1e-20,
                   .scale = 2.5},
        RouterRule{.experts = 3, .top_k = 1}, RouterRule{.experts = 512, .top_k = 32, .scale = 0.5}}) {
    for (const bool scores : {false, true}) {
      Compare("router", "cuda", 3e-6, [&] {
        const at::Tensor logits = Leaf({333, rule.experts});
        const at::Tensor bias = rule.correction_bias ? at::randn({rule.experts}, options_) : at::Tensor();
        const Routing routing = ChooseExperts(logits, rule, bias);
        Tensors outputs{routing.weights};
        if (scores) outputs.push_back(routing.scores);
        Tensors all = Differentiate(outputs, {logits});
        all.push_back(routing.experts);
        return all;
      });
    }
  }
}

TEST_P(CudaOps, GroupedLinear) {
  const bool bf16 = GetParam() == at::kBFloat16;
  for (const std::vector<int64_t>& ends :
       {std::vector<int64_t>{130, 130, 131, 400, 400}, std::vector<int64_t>{0, 0, 7, 2000, 2077}}) {
    for (const auto& [stale, out] : {std::pair<bool, int64_t>{false, 136}, {true, 136}, {true, 132}}) {
      Compare("grouped_linear", bf16 ? "cuda" : "aten", Tolerance(), [&, stale = stale, out = out] {
        Weight weight = TrainedWeight({5, out, 264});
        weight.gradient = at::full({5, 200, 264}, 7, options_).narrow(1, 0, out);  // experts apart
        weight.stale = stale;                                                      // what it has counts as zero
        const at::Tensor x = Leaf({ends.back(), 264});
        const auto groups = std::make_shared<const RowEnds>(ends);
        Tensors all = Differentiate({GroupedLinear(x, weight, groups)}, {x});
        all.push_back(weight.gradient);
        return all;
      });
    }
  }
}

// Expert by expert in fp64. Hopper's kernel adds in fp32; elsewhere products are rounded to bf16 before. Rows that
// belong to no expert are NaN, and so is a gradient that counts as zero.
TEST_P(CudaOps, GroupedGradient) {
  if (GetParam() != at::kBFloat16) return;
  const double tolerance = Cuda::Open().bridge().Capability() == 90 ? 3e-5 : Tolerance();
  const std::vector<std::pair<int64_t, int64_t>> shapes{{136, 264}, {8, 8}, {384, 768}, {640, 40}};
  for (const std::vector<int64_t>& ends :
       {std::vector<int64_t>{0, 0, 0, 0, 513}, std::vector<int64_t>{64, 128, 128, 192, 1001},
        std::vector<int64_t>{1, 2, 18, 81, 145}, std::vector<int64_t>{700, 700, 700, 700, 700}}) {
    for (const auto& [out, in] : shapes) {
      for (const bool stale : {false, true}) {
        const at::Tensor x = Random({ends.back() + 33, in}), output_gradient = Random({ends.back() + 33, out});
        x.narrow(0, ends.back(), 33).fill_(NAN);
        output_gradient.narrow(0, ends.back(), 33).fill_(NAN);
        Weight weight = TrainedWeight({5, out, in});
        const at::Tensor apart = at::full({5, out + 4, in}, NAN, options_), before = at::randn({5, out, in}, options_);
        weight.gradient = apart.narrow(1, 0, out);
        if (!stale) weight.gradient.copy_(before);
        weight.stale = stale;
        AddGroupedGradient(weight, output_gradient, x, RowEnds(at::tensor(ends, at::kLong).to(x.device())));
        for (int64_t expert = 0; expert < 5; ++expert) {
          const int64_t begin = expert == 0 ? 0 : ends[expert - 1], rows = ends[expert] - begin;
          at::Tensor right = at::mm(output_gradient.narrow(0, begin, rows).to(at::kDouble).t(),
                                    x.narrow(0, begin, rows).to(at::kDouble));
          if (!stale) right += before[expert];
          const double error = (weight.gradient[expert] - right).norm().item<double>();
          EXPECT_LE(error, tolerance * right.norm().item<double>()) << out << " x " << in << ", expert " << expert;
        }
        EXPECT_TRUE(apart.narrow(1, out, 4).isnan().all().item<bool>()) << "written after an expert's gradient";
      }
    }
  }
}

TEST_P(CudaOps, Heads) {
  const int64_t rows = 2, length = 37;
  for (const HeadShape& shape : {HeadShape{rows, length, 14, 2, 64}, HeadShape{rows, length, 28, 4, 128},
                                 HeadShape{rows, length, 80, 20, 128}, HeadShape{rows, length, 3, 3, 32}}) {
    for (const bool norms : {false, true}) {
      Compare("qkv_norm_rope", "cuda", Tolerance(), [&] {
        const at::Tensor qkv = Leaf({shape.tokens(), shape.width()});
        const Weight query_norm = TrainedWeight({shape.head_dim}), key_norm = TrainedWeight({shape.head_dim});
        std::vector<double> frequencies;
        for (int64_t i = 0; i < shape.head_dim / 2; ++i) frequencies.push_back(1.0 / static_cast<double>(1 + i));
        const at::Tensor positions = at::arange(length, options_.dtype(at::kLong)).repeat({rows});
        const Heads heads = SplitHeads(qkv, shape, norms ? &query_norm : nullptr, norms ? &key_norm : nullptr,
                                       MakeRotaryTable(positions, frequencies));
        Tensors all = Differentiate({heads.query, heads.key, heads.value}, {qkv});
        if (norms) all.insert(all.end(), {query_norm.gradient, key_norm.gradient});
        return all;
      });
    }
  }
}

TEST_P(CudaOps, Attention) {
  const bool bf16 = GetParam() == at::kBFloat16;
  struct Shape {
    int64_t rows, length, kv_heads, group, dim;
  };
  for (const Shape& s : {Shape{2, 256, 2, 7, 64}, Shape{1, 300, 4, 7, 128}, Shape{3, 64, 2, 1, 128}}) {
    for (const bool recompute : {false, true}) {
      Compare("attention", bf16 ? "cudnn" : "aten", Tolerance(), [&] {
        const at::Tensor query = Leaf({s.rows, s.kv_heads, s.length, s.group, s.dim});
        const at::Tensor key = Leaf({s.rows, s.kv_heads, s.length, s.dim}), value = Leaf(key.sizes());
        const Heads heads{query, key, value};
        if (!recompute) return Differentiate({CausalAttention(heads)}, {query, key, value});
        const Attended attended = CausalAttentionAgain(heads);
        Tensors all = Differentiate({attended.output}, {query, key, value});
        return all;
      });
    }
  }
}

// Documents side by side, with and without padding between and after them.
TEST_P(CudaOps, PackedAttention) {
  const bool bf16 = GetParam() == at::kBFloat16;
  const auto document = [](int64_t begin, int64_t size) {
    return AttentionTile{.query = begin, .queries = size, .key = begin, .keys = size};
  };
  const RowTiles full = {{document(0, 100), document(100, 1), document(101, 155)}, {document(0, 256)}};
  const RowTiles gaps = {{document(0, 40), document(64, 100)}, {}};
  for (const int64_t dim : {64, 128}) {
    for (const RowTiles& tiles : {full, gaps}) {
      Compare("attention_tiles", bf16 ? "flash" : "aten", Tolerance(), [&] {
        const Heads heads{Random({2, 2, 256, 3, dim}), Random({2, 2, 256, dim}), Random({2, 2, 256, dim})};
        const PartialAttention found = AttendPacked(heads, 0.1, tiles);
        const at::Tensor output = found.output.to(GetParam()), gradient = Random(heads.query.sizes());
        const Heads back = AttendPackedBackward(heads, 0.1, tiles, {found.log_sum_exp, gradient, output});
        return Tensors{output, back.query, back.key, back.value};
      });
    }
  }
}

// A prompt, then tokens one by one, rows of different length, one of them idle.
TEST_P(CudaOps, CachedAttention) {
  const bool bf16 = GetParam() == at::kBFloat16;
  struct Shape {
    int64_t rows, kv_heads, group, dim;
  };
  for (const Shape& s : {Shape{3, 2, 7, 128}, Shape{1, 4, 1, 64}, Shape{2, 1, 16, 256}, Shape{300, 1, 2, 64}}) {
    for (const int64_t prompt : {5, 700}) {
      if (s.rows * prompt > 100000) continue;
      Compare("cached_attention", bf16 ? "flash" : "aten", Tolerance(), [&] {
        KeyValues cache;
        Tensors all;
        const auto step = [&](int64_t length, CachedRows rows) {
          const Heads heads{Random({s.rows, s.kv_heads, length, s.group, s.dim}),
                            Random({s.rows, length, s.kv_heads, s.dim}).transpose(1, 2),
                            Random({s.rows, length, s.kv_heads, s.dim}).transpose(1, 2)};
          const at::Tensor found = CachedAttention(heads, 0.1, rows, cache).view({s.rows, length, -1});
          for (int64_t row = 0; row < s.rows; ++row) all.push_back(found[row].narrow(0, 0, rows.fresh[row]).clone());
        };
        std::vector<int64_t> past(s.rows, 0), fresh(s.rows, prompt);
        fresh.back() = 3;
        step(prompt, {past, fresh});
        past = fresh;
        for (int i = 0; i < 3; ++i) {
          std::fill(fresh.begin(), fresh.end(), 1);
          if (i == 1) fresh.back() = 0;
          step(1, {past, fresh});
          for (int64_t row = 0; row < s.rows; ++row) past[row] += fresh[row];
        }
        return all;
      });
    }
  }
}

// Rows of different length in mixed-up blocks, in three steps; one token each, so that the kernel reads the blocks.
TEST_P(CudaOps, PagedAttention) {
  constexpr int64_t kBlock = 16;
  struct Shape {
    int64_t rows, kv_heads, group, dim, longest, window;
  };
  for (const Shape& s : {Shape{3, 2, 7, 128, 700, 0}, Shape{1, 4, 1, 64, 5, 0}, Shape{2, 1, 16, 256, 3000, 0},
                         Shape{300, 1, 2, 64, 40, 0}, Shape{3, 2, 4, 128, 700, 100}}) {
    Compare("paged_attention", "cuda", Tolerance(), [&] {
      const int64_t columns = (s.longest + 3) / kBlock + 1;
      PagedRows rows{.block_size = kBlock, .blocks = s.rows * columns};
      PagedKeyValues cache{Random({rows.blocks, s.kv_heads, kBlock, s.dim}),
                           Random({rows.blocks, s.kv_heads, kBlock, s.dim})};
      for (int64_t row = 0; row < s.rows; ++row) {
        PagedRow one{.past = s.longest - row % 7 * (s.longest / 8), .fresh = 1, .blocks = {}};
        for (int64_t i = 0; i < columns; ++i) one.blocks.push_back(static_cast<int32_t>(i * s.rows + row));
        rows.rows.push_back(one);
      }
      PagedScratch scratch;
      Tensors all;
      for (int step = 0; step < 3; ++step) {
        const Heads heads{Random({1, s.kv_heads, s.rows, s.group, s.dim}),
                          Random({1, s.rows, s.kv_heads, s.dim}).transpose(1, 2),
                          Random({1, s.rows, s.kv_heads, s.dim}).transpose(1, 2)};
        scratch.Begin();
        all.push_back(PagedAttention(heads, s.dim, 0.1, rows, cache, scratch, s.window));
        for (PagedRow& row : rows.rows) ++row.past;
      }
      all.push_back(cache.key);
      all.push_back(cache.value);
      return all;
    });
  }
}

TEST_P(CudaOps, WeightGradient) {
  const bool bf16 = GetParam() == at::kBFloat16;
  Compare("weight_gradient", bf16 ? "cublas" : "aten", Tolerance(), [&] {
    const Weight weight = TrainedWeight({96, 160});
    weight.gradient.fill_(7);
    weight.stale = true;  // what it has counts as zero
    for (int i = 0; i < 2; ++i) AddWeightGradient(weight, Random({64, 96}), Random({64, 160}));
    return Tensors{weight.gradient};
  });
}

TEST_P(CudaOps, CrossEntropy) {
  for (const auto& [columns, stride] : {std::pair<int64_t, int64_t>{1000, 1000}, {1003, 1003}, {151643, 152064}}) {
    Compare("cross_entropy", "cuda", Tolerance(), [&, columns = columns, stride = stride] {
      const at::Tensor logits = Random({19, stride}) * 4;
      const at::Tensor labels = at::randint(columns + 50, {19}, options_.dtype(at::kLong));
      const LogitColumns which{.first = 40, .count = columns};
      const LogitStatistics found = StatisticsOfLogits(logits, labels, which);
      const at::Tensor log_sum_exp = found.largest + found.sum.log();
      LogitsToGradient(logits, labels, which, log_sum_exp, 0.25);
      return Tensors{log_sum_exp, found.picked, logits};
    });
  }
}

TEST_P(CudaOps, AdamW) {
  for (const at::ScalarType masters : {at::kFloat, GetParam()}) {
    for (const at::ScalarType moments : {at::kFloat, at::kBFloat16}) {
      for (const int64_t size : {5, 4096, 100003}) {
        Compare("adamw", "cuda", moments == at::kFloat && masters == at::kFloat ? 1e-6 : 4e-3, [&] {
          const at::Tensor values = Random({size});
          const bool separate = masters != GetParam();
          const at::Tensor zeros = at::zeros({size}, options_.dtype(moments));
          const AdamWTensors t{separate ? values.to(at::kFloat) : values, zeros, zeros.clone(),
                               at::randn({size}, options_), separate ? values : at::Tensor()};
          for (int64_t step = 1; step <= 3; ++step) AdamW(t, {.step = step, .gradient_scale = 0.5});
          return Tensors{t.master, t.exp_avg, t.exp_avg_sq, values};
        });
      }
    }
  }
}

TEST_P(CudaOps, AdamWWithSplitMasters) {
  if (GetParam() != at::kBFloat16) return;
  for (const at::ScalarType moments : {at::kFloat, at::kBFloat16}) {
    for (const int64_t size : {5, 4096, 100003}) {
      Compare("adamw", "cuda", moments == at::kFloat ? 1e-6 : 4e-3, [&] {
        const at::Tensor values = Random({size}), low = at::zeros({size}, options_.dtype(at::kShort));
        const at::Tensor zeros = at::zeros({size}, options_.dtype(moments));
        const AdamWTensors t{low, zeros, zeros.clone(), at::randn({size}, options_), values};
        for (int64_t step = 1; step <= 3; ++step) AdamW(t, {.step = step, .gradient_scale = 0.5});
        return Tensors{JoinMaster(values, low), t.exp_avg, t.exp_avg_sq};
      });
    }
  }
}

TEST_P(CudaOps, Accumulate) {
  for (const int64_t size : {1, 7, 4096, 100003}) {
    Compare("accumulate", "cuda", 1e-6, [&] {
      const at::Tensor sum = at::randn({size}, options_);
      AddInto(sum, Random({size}));
      return Tensors{sum};
    });
  }
}

TEST_P(CudaOps, GradientNorm) {
  if (GetParam() != at::kFloat) return;  // gradients are fp32
  Compare("gradient_norm", "cuda", 1e-6, [&] {
    return Tensors{at::tensor({SumOfSquares({Random({3}), Random({1000003}), Random({0})})}, at::kDouble)};
  });
}

TEST_P(CudaOps, Dropout) {
  Compare("dropout_add", "cuda", Tolerance(), [&] {
    const auto dropout = std::make_shared<const Dropout>(
        Dropout{.rate = 0.3, .random = RandomStream(1, "test"), .rows = at::arange(40, at::kLong), .first_column = 5});
    const at::Tensor x = Leaf({40, 333}), residual = Leaf({40, 333});
    return Differentiate({DropoutAdd(residual, x, dropout), WithDropout(x, dropout)}, {x, residual});
  });
}

}  // namespace
}  // namespace trireme
