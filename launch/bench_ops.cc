// `trireme bench ops`: times each fused operator against the eager ATen composition (AdamW: against ATen's
// fused one) and against a plain copy, all in one run. One JSON line an operator, type and direction.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <malloc.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "core/tensor/torch_errors.h"
#include "launch/bench_ops_cases.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
using Tensors = OperatorCase::Tensors;

struct Settings {
  int64_t rows = 0, columns = 0, repeats = 0;
  std::string only, impl;
};

struct Best {
  double forward = std::numeric_limits<double>::infinity(), backward = forward;
};

double Seconds(const std::function<void()>& work) {
  const Clock::time_point start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A gradient left by an earlier run would be added to, which no run of a model does with activations.
void RunOnce(const std::function<Tensors()>& run, at::Tensor input, Best& best) {
  Tensors results;
  input.mutable_grad().reset();
  best.forward = std::min(best.forward, Seconds([&] { results = run(); }));
  if (results.empty() || !results[0].requires_grad()) return;
  Tensors gradients;
  for (const at::Tensor& result : results) gradients.push_back(at::ones_like(result));
  best.backward = std::min(best.backward, Seconds([&] { torch::autograd::backward(results, gradients); }));
}

// A plain copy, timed beside each operator.
class Copy {
 public:
  Copy(const Settings& s, at::ScalarType type)
      : from_(at::zeros({s.rows, s.columns}, type)), to_(at::zeros_like(from_)) {}

  void Run() {
    best_ = std::min(best_, Seconds([&] { to_.copy_(from_); }));
  }
  // Bytes read and written a second.
  double rate() const { return 2 * static_cast<double>(from_.nbytes()) / best_; }

 private:
  at::Tensor from_, to_;
  double best_ = std::numeric_limits<double>::infinity();
};

void Measure(const OperatorCase& c, const Settings& s, const char* dtype, Copy copy) {
  if (!s.only.empty() && c.op.find(s.only) == std::string::npos) return;
  std::unique_ptr<KernelsFirst> kernels;
  const auto first = [&] {
    if (s.impl == "ascendc") kernels = std::make_unique<KernelsFirst>();
  };
  first();
  const Version version = Choose(c.op.substr(0, c.op.find(' ')), c.typed.detach(), c.against).version;
  Best ours, aten;
  for (int64_t i = 0; i <= s.repeats; ++i) {  // in turns: the machine may be shared
    RunOnce(c.run, c.typed, ours);
    copy.Run();
    const ReferenceOnly guard;
    RunOnce(c.aten ? c.aten : c.run, c.typed, aten);
  }
  if (version == Version::kReference && !c.aten) aten = ours;
  const auto line = [&](const char* direction, double us, double aten_us, double bytes) {
    std::cout << JsonLine({{"op", c.op},
                           {"dtype", dtype},
                           {"shape", c.shape.empty() ? std::vector<int64_t>{s.rows, s.columns} : c.shape},
                           {"direction", direction},
                           {"us", us * 1e6},
                           {"aten_us", aten_us * 1e6},
                           {"ratio", aten_us / us},
                           {"gbs", bytes / us / 1e9},
                           {"copy_gbs", copy.rate() / 1e9},
                           {"impl", NameOf(version)},
                           {"threads", at::get_num_threads()}})
              << "\n"
              << std::flush;
  };
  const bool gradient = c.op == "cross_entropy gradient";
  line(gradient ? "backward" : "forward", ours.forward, aten.forward, c.forward_bytes);
  if (c.backward_bytes > 0) line("backward", ours.backward, aten.backward, c.backward_bytes);
}

void MeasureType(const Settings& s, at::ScalarType type, const char* dtype) {
  const Copy copy(s, type);
  ForEachOperatorCase(s.rows, s.columns, type, [&](const OperatorCase& c) { Measure(c, s, dtype, copy); });
}

void BenchOps(const Arguments& arguments, Job& job) {
  Settings s{arguments.integer("rows", 4096, 1), arguments.integer("columns", 4096, 1),
             arguments.integer("repeats", 7, 1), arguments.value("op"), arguments.value("impl", "chosen")};
  if (s.impl != "chosen" && s.impl != "ascendc")
    throw InputError("--impl ", s.impl, ": write chosen or ascendc");
  const std::string dtype = arguments.value("dtype");
  const std::pair<const char*, at::ScalarType> types[] = {
      {"bf16", at::kBFloat16}, {"fp32", at::kFloat}, {"fp16", at::kHalf}};
  if (!dtype.empty() && dtype != "bf16" && dtype != "fp32" && dtype != "fp16")
    throw InputError("--dtype ", dtype, ": write bf16, fp32 or fp16");
  if (job.rank() != 0) return;
  mallopt(M_MMAP_MAX, 0);  // freed memory stays ours, as in a training run: no fresh pages in what is timed
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  for (const auto& [name, type] : types) {
    if (dtype.empty() ? type != at::kHalf : dtype == name) MeasureType(s, type, name);
  }
}

}  // namespace

Command BenchOpsCommand() {
  return {
      .name = "bench ops",
      .summary =
          "Times each fused operator on the cpu against the eager ATen composition (AdamW: against ATen's "
          "fused\n"
          "one) in one run, one JSON line each; gbs is what it must read and write over its time, copy_gbs "
          "the\n"
          "same of a plain copy.",
      .options =
          {{.name = "rows", .value_name = "N", .help = "by default 4096"},
           {.name = "columns", .value_name = "N", .help = "by default 4096"},
           {.name = "dtype", .value_name = "TYPE", .help = "bf16, fp32 or fp16; by default bf16 and fp32"},
           {.name = "op", .value_name = "NAME", .help = "only operators with this in their name"},
           {.name = "impl", .value_name = "NAME", .help = "chosen (as in training) or ascendc (the kernels)"},
           {.name = "repeats", .value_name = "N", .help = "the best of so many counts; by default 7"}},
      .run = [](const Arguments& arguments, Job& job) {
        WithTorchErrors([&] { BenchOps(arguments, job); });
      }};
}

}  // namespace trireme
