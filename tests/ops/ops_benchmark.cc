// Times each operator against its reference, at the shapes of one layer of a model with 107M parameters (1024
// tokens in 2 rows, hidden 768, 12 heads with 4 key-value heads, ffn 2304, vocabulary 32000). Built, not run,
// by the tests:
//   build/tests/ops/ops_benchmark [threads] [part of a name]
// The versions alternate and the best time of each counts, since machines are shared. GB/s: the minimum bytes
// the operator must read and write, divided by its time.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <malloc.h>
#include <time.h>

#include <cstdio>
#include <functional>
#include <limits>
#include <string>

#include "ops/attention/attention.h"
#include "ops/choose.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/flat/accumulate.h"
#include "ops/flat/adamw.h"
#include "ops/flat/gradient_norm.h"
#include "ops/linear/linear.h"
#include "ops/qkv_norm_rope/qkv_norm_rope.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/swiglu/swiglu.h"

namespace trireme {
namespace {

constexpr int64_t kRows = 2, kLength = 512, kHeads = 12, kKvHeads = 4, kDim = 64;
constexpr int64_t kTokens = kRows * kLength, kHidden = 768, kFfn = 2304, kVocabulary = 32000;

// With one thread its CPU time counts, which a busy machine disturbs less.
double Seconds() {
  timespec time;
  clock_gettime(at::get_num_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Best {
  double forward = 1e9, backward = 1e9;
};

// Runs once; an operator without a backward pass returns an undefined tensor.
void Run(const std::function<at::Tensor()>& op, Best& best) {
  const double begin = Seconds();
  const at::Tensor y = op();
  best.forward = std::min(best.forward, Seconds() - begin);
  if (!y.defined() || !y.requires_grad()) return;
  const at::Tensor gradient = at::ones_like(y);
  const double middle = Seconds();
  torch::autograd::backward({y}, {gradient});
  best.backward = std::min(best.backward, Seconds() - middle);
}

struct Traffic {
  double forward_bytes = 0, backward_bytes = 0;
};

std::string only;

void Measure(const std::string& name, at::ScalarType type, Traffic traffic, const std::function<at::Tensor()>& op,
             const std::function<at::Tensor()>& reference) {
  if (name.find(only) == std::string::npos) return;
  Best fast, slow;
  for (int i = 0; i < 12; ++i) {
    Run(op, fast);
    const ReferenceOnly guard;
    Run(reference, slow);
  }
  const auto line = [&](const char* direction, double before, double after, double bytes) {
    if (after > 1) return;
    std::printf("%-18s %-8s %-5s %9.0f %9.0f %6.1f %7.1f\n", name.c_str(), direction,
                type == at::kFloat ? "fp32" : "bf16", before * 1e6, after * 1e6, before / after, bytes / after / 1e9);
  };
  line("forward", slow.forward, fast.forward, traffic.forward_bytes);
  line("backward", slow.backward, fast.backward, traffic.backward_bytes);
}

void Measure(const std::string& name, at::ScalarType type, Traffic traffic, const std::function<at::Tensor()>& op) {
  Measure(name, type, traffic, op, op);
}

at::Tensor Random(at::IntArrayRef shape, at::ScalarType type) { return at::randn(shape, at::kFloat).to(type); }

at::Tensor Leaf(at::IntArrayRef shape, at::ScalarType type) { return Random(shape, type).set_requires_grad(true); }

Weight MakeWeight(at::IntArrayRef shape, at::ScalarType type) {
  return {"weight", Random(shape, type) * 0.02, at::zeros(shape, at::kFloat)};
}

constexpr HeadShape kShape{.rows = kRows, .length = kLength, .heads = kHeads, .kv_heads = kKvHeads, .head_dim = kDim};

RotaryTable Table() {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < kDim / 2; ++i) frequencies.push_back(1.0 / static_cast<double>(1 + i));
  return MakeRotaryTable(at::arange(kTokens, at::kLong).remainder(kLength), frequencies);
}

void MeasureAttention(at::ScalarType type) {
  const Heads heads{Leaf({kRows, kKvHeads, kLength, kHeads / kKvHeads, kDim}, type),
                    Leaf({kRows, kKvHeads, kLength, kDim}, type), Leaf({kRows, kKvHeads, kLength, kDim}, type)};
  const double query = heads.query.nbytes(), all = query + 2.0 * heads.key.nbytes();
  Measure("attention", type, {all + query, 2 * all + 2 * query}, [&] { return CausalAttention(heads); });
}

void MeasureHeads(at::ScalarType type) {
  const Weight query_norm = MakeWeight({kDim}, type), key_norm = MakeWeight({kDim}, type);
  const at::Tensor qkv = Leaf({kTokens, kShape.width()}, type);
  const RotaryTable table = Table();
  const double bytes = qkv.nbytes();
  Measure("heads", type, {2 * bytes, 3 * bytes}, [&] {
    const Heads heads = SplitHeads(qkv, kShape, &query_norm, &key_norm, table);
    return at::cat({heads.query.flatten(), heads.key.flatten(), heads.value.flatten()});
  });
}

void MeasureElementwise(at::ScalarType type) {
  const Weight norm = MakeWeight({kHidden}, type);
  const at::Tensor x = Leaf({kTokens, kHidden}, type), branch = Leaf({kTokens, kHidden}, type);
  const at::Tensor gate_up = Leaf({kTokens, 2 * kFfn}, type);
  const double bytes = x.nbytes(), wide = gate_up.nbytes();
  Measure("rms_norm", type, {2 * bytes, 3 * bytes}, [&] { return RmsNorm(x, norm, 1e-6); });
  Measure("add_rms_norm", type, {4 * bytes, 3 * bytes}, [&] { return AddRmsNorm(x, branch, norm, 1e-6).normalised; });
  Measure("swiglu", type, {1.5 * wide, 2.5 * wide}, [&] { return SwiGlu(gate_up); });
}

void MeasureLinear(at::ScalarType type) {
  for (const auto& [name, in, out] :
       {std::tuple{"linear qkv", kHidden, kShape.width()}, std::tuple{"linear output", kHidden, kHidden},
        std::tuple{"linear gate_up", kHidden, 2 * kFfn}, std::tuple{"linear down", kFfn, kHidden}}) {
    const Weight weight = MakeWeight({out, in}, type);
    const at::Tensor x = Leaf({kTokens, in}, type);
    Measure(name, type, {}, [&] { return Linear(x, weight); });
  }
}

void MeasureHead(at::ScalarType type) {
  const at::Tensor logits = Random({kTokens, kVocabulary}, type), x = Random({kTokens, kHidden}, type);
  const at::Tensor labels = at::randint(kVocabulary, {kTokens}, at::kLong);
  const Weight weight = MakeWeight({kVocabulary, kHidden}, type);
  const double bytes = logits.nbytes();
  const at::Tensor log_sum_exp = at::full({kTokens}, 11.0f);
  Measure("logit statistics", type, {bytes, 0},
          [&] { return StatisticsOfLogits(logits, labels, {0, kVocabulary}).sum; });
  Measure("logit gradient", type, {2 * bytes, 0}, [&] {
    LogitsToGradient(logits, labels, {0, kVocabulary}, log_sum_exp, 1e-3);
    return at::Tensor();
  });
  Measure("head weight grad", type, {}, [&] {
    AddWeightGradient(weight, logits, x);
    return at::Tensor();
  });
}

void MeasureFlat(at::ScalarType type) {
  constexpr int64_t kCount = 16 << 20;
  const AdamWTensors t{Random({kCount}, at::kFloat), at::zeros({kCount}), at::zeros({kCount}),
                       Random({kCount}, at::kFloat), Random({kCount}, type)};
  Measure(
      "adamw 16M", type, {kCount * (28.0 + t.parameter.element_size()), 0},
      [&] {
        AdamW(t, {});
        return at::Tensor();
      },
      [&] {
        std::vector<at::Tensor> master{t.master}, gradient{t.gradient}, m{t.exp_avg}, v{t.exp_avg_sq};
        at::_fused_adamw_(master, gradient, m, v, {}, {at::tensor(1.0f)}, 1e-3, 0.9, 0.999, 0.01, 1e-8,
                          /*amsgrad=*/false, /*maximize=*/false);
        t.parameter.copy_(t.master);
        return at::Tensor();
      });
  Measure("add into 16M", type, {kCount * (8.0 + t.parameter.element_size()), 0}, [&] {
    AddInto(t.master, t.parameter);
    return at::Tensor();
  });
  if (type != at::kFloat) return;
  Measure("sum of squares 16M", type, {kCount * 4.0, 0}, [&] {
    SumOfSquares(t.gradient);
    return at::Tensor();
  });
}

// One decoder layer in one process: composed of the fused operators, and as the chain of small ones.
struct Layer {
  explicit Layer(at::ScalarType type)
      : norm1(MakeWeight({kHidden}, type)),
        norm2(MakeWeight({kHidden}, type)),
        query_norm(MakeWeight({kDim}, type)),
        key_norm(MakeWeight({kDim}, type)),
        qkv(MakeWeight({kShape.width(), kHidden}, type)),
        output(MakeWeight({kHidden, kHeads * kDim}, type)),
        gate_up(MakeWeight({2 * kFfn, kHidden}, type)),
        down(MakeWeight({kHidden, kFfn}, type)),
        table(Table()) {}
  Weight norm1, norm2, query_norm, key_norm, qkv, output, gate_up, down;
  RotaryTable table;

  at::Tensor Fused(const at::Tensor& x, const at::Tensor& branch) const {
    const AddedNorm first = AddRmsNorm(x, branch, norm1, 1e-6);
    const Heads heads = SplitHeads(Linear(first.normalised, qkv), kShape, &query_norm, &key_norm, table);
    const AddedNorm second = AddRmsNorm(first.sum, Linear(CausalAttention(heads), output), norm2, 1e-6);
    return second.sum + Linear(SwiGlu(Linear(second.normalised, gate_up)), down);
  }

  at::Tensor Chain(const at::Tensor& x, const at::Tensor& branch) const {
    const at::Tensor sum = x + branch;
    const at::Tensor all = Linear(RmsNorm(sum, norm1, 1e-6), qkv).view({kTokens, -1, kDim});
    const auto rows = [&](const at::Tensor& t) { return t.reshape({kRows, kLength, -1, kDim}).transpose(1, 2); };
    const at::Tensor query = rows(Rotate(RmsNorm(all.narrow(1, 0, kHeads), query_norm, 1e-6), table));
    const at::Tensor key = rows(Rotate(RmsNorm(all.narrow(1, kHeads, kKvHeads), key_norm, 1e-6), table));
    const at::Tensor value = rows(all.narrow(1, kHeads + kKvHeads, kKvHeads));
    const at::Tensor mixed = at::scaled_dot_product_attention(query, key, value, {}, 0.0, /*is_causal=*/true,
                                                              std::nullopt, /*enable_gqa=*/true);
    const at::Tensor attended = sum + Linear(mixed.transpose(1, 2).reshape({kTokens, -1}), output);
    return attended + Linear(SwiGlu(Linear(RmsNorm(attended, norm2, 1e-6), gate_up)), down);
  }
};

void MeasureLayer(at::ScalarType type) {
  const Layer layer(type);
  const at::Tensor x = Leaf({kTokens, kHidden}, type), branch = Leaf({kTokens, kHidden}, type);
  Measure("whole layer", type, {}, [&] { return layer.Fused(x, branch); }, [&] { return layer.Chain(x, branch); });
}

void All(at::ScalarType type) {
  MeasureAttention(type);
  MeasureHeads(type);
  MeasureElementwise(type);
  MeasureLinear(type);
  MeasureHead(type);
  MeasureFlat(type);
  MeasureLayer(type);
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::stoi(argv[1]) : 2;
  at::set_num_threads(threads);
  if (argc > 2) trireme::only = argv[2];
  mallopt(M_MMAP_MAX, 0);  // keep freed memory, as in a training run: no page faults while timing
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  std::printf("%d threads\n%-18s %-8s %-5s %9s %9s %6s %7s\n", threads, "operator", "", "type", "before us", "after us",
              "ratio", "GB/s");
  trireme::All(at::kBFloat16);
  trireme::All(at::kFloat);
}
