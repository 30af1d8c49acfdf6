// Times each operator against its reference, at the shapes of one layer of a model with 107M parameters
// (1024 tokens of 2 rows, hidden 768, 12 heads on 4, ffn 2304, vocabulary 32000). Built, not run, by the
// tests:
//   build/tests/ops/ops_benchmark [threads] [part of a name]
// Both versions take turns and the best of each counts, for machines are shared. GB/s: what the operator must
// read and write at least, over its time.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include <time.h>

#include <cstdio>
#include <functional>
#include <string>

#include "ops/attention.h"
#include "ops/choose.h"

namespace trireme {
namespace {

constexpr int64_t kRows = 2, kLength = 512, kHeads = 12, kKvHeads = 4, kDim = 64;

// With one thread its own time counts, which a busy machine spoils less.
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

void Measure(const std::string& name, at::ScalarType type, Traffic traffic,
             const std::function<at::Tensor()>& op, const std::function<at::Tensor()>& reference) {
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
                type == at::kFloat ? "fp32" : "bf16", before * 1e6, after * 1e6, before / after,
                bytes / after / 1e9);
  };
  line("forward", slow.forward, fast.forward, traffic.forward_bytes);
  line("backward", slow.backward, fast.backward, traffic.backward_bytes);
}

void Measure(const std::string& name, at::ScalarType type, Traffic traffic,
             const std::function<at::Tensor()>& op) {
  Measure(name, type, traffic, op, op);
}

at::Tensor Random(at::IntArrayRef shape, at::ScalarType type) {
  return at::randn(shape, at::kFloat).to(type);
}

at::Tensor Leaf(at::IntArrayRef shape, at::ScalarType type) {
  return Random(shape, type).set_requires_grad(true);
}

void Attention(at::ScalarType type) {
  const Heads heads{Leaf({kRows, kKvHeads, kLength, kHeads / kKvHeads, kDim}, type),
                    Leaf({kRows, kKvHeads, kLength, kDim}, type),
                    Leaf({kRows, kKvHeads, kLength, kDim}, type)};
  const double bytes = heads.query.nbytes() + heads.key.nbytes() * 2.0;
  Measure("attention", type, {bytes + heads.query.nbytes(), 2 * bytes + 2 * heads.query.nbytes()},
          [&] { return CausalAttention(heads); });
}

void All(at::ScalarType type) { Attention(type); }

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::stoi(argv[1]) : 2;
  at::set_num_threads(threads);
  if (argc > 2) trireme::only = argv[2];
  std::printf("%d threads\n%-18s %-8s %-5s %9s %9s %6s %7s\n", threads, "operator", "", "type", "before us",
              "after us", "ratio", "GB/s");
  trireme::All(at::kBFloat16);
  trireme::All(at::kFloat);
}
