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
#include "ops/accumulate.h"
#include "ops/adamw.h"
#include "ops/choose.h"
#include "ops/gradient_norm.h"
#include "ops/heads.h"
#include "ops/rms_norm.h"
#include "ops/softmax_cross_entropy.h"
#include "ops/swiglu.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
using Tensors = std::vector<at::Tensor>;

struct Settings {
  int64_t rows = 0, columns = 0, repeats = 0;
  std::string only, impl;
};

// What is timed: the operator, the same by ATen, and how many bytes each direction must move at least.
struct Case {
  std::string op;
  double forward_bytes = 0, backward_bytes = 0;
  at::Tensor typed;                 // says which version would run
  std::function<Tensors()> run;     // results that have a backward pass, or none
  std::function<Tensors()> aten{};  // the same as `run` where empty, by the reference
  Against against{};
};

struct Best {
  double forward = std::numeric_limits<double>::infinity(), backward = forward;
};

double Seconds(const std::function<void()>& work) {
  const Clock::time_point start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void RunOnce(const std::function<Tensors()>& run, Best& best) {
  Tensors results;
  best.forward = std::min(best.forward, Seconds([&] { results = run(); }));
  if (results.empty() || !results[0].requires_grad()) return;
  Tensors gradients;
  for (const at::Tensor& result : results) gradients.push_back(at::ones_like(result));
  best.backward = std::min(best.backward, Seconds([&] { torch::autograd::backward(results, gradients); }));
}

at::Tensor Random(at::IntArrayRef shape, at::ScalarType type) {
  return at::randn(shape, at::kFloat).to(type);
}
at::Tensor Leaf(at::IntArrayRef shape, at::ScalarType type) {
  return Random(shape, type).set_requires_grad(true);
}
std::shared_ptr<Weight> MakeWeight(int64_t size, at::ScalarType type) {
  return std::make_shared<Weight>(Weight{"weight", Random({size}, type), at::zeros({size}, at::kFloat)});
}

Case RmsNormCase(const Settings& s, at::ScalarType type) {
  const at::Tensor x = Leaf({s.rows, s.columns}, type);
  const auto weight = MakeWeight(s.columns, type);
  const double bytes = static_cast<double>(x.nbytes());
  return {"rms_norm", 2 * bytes, 3 * bytes, x, [=] { return Tensors{RmsNorm(x, *weight, 1e-6)}; }};
}

Case SwigluCase(const Settings& s, at::ScalarType type) {
  const at::Tensor x = Leaf({s.rows, 2 * s.columns}, type);
  const double bytes = static_cast<double>(x.nbytes());
  return {"swiglu", 1.5 * bytes, 2.5 * bytes, x, [=] { return Tensors{SwiGlu(x)}; }};
}

// Heads of 128, four queries to a key, with norms.
Case RotaryCase(const Settings& s, at::ScalarType type) {
  constexpr int64_t kDim = 128;
  const int64_t groups = std::max<int64_t>(s.columns / kDim / 6, 1);
  const HeadShape shape{
      .rows = 1, .length = s.rows, .heads = 4 * groups, .kv_heads = groups, .head_dim = kDim};
  const at::Tensor qkv = Leaf({s.rows, shape.width()}, type);
  const auto query_norm = MakeWeight(kDim, type), key_norm = MakeWeight(kDim, type);
  std::vector<double> frequencies(kDim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = 1.0 / static_cast<double>(i + 1);
  const RotaryTable table = MakeRotaryTable(at::arange(s.rows, at::kLong), frequencies);
  const double bytes = static_cast<double>(qkv.nbytes());
  return {"heads", 2 * bytes, 3 * bytes, qkv, [=] {
            const Heads heads = SplitHeads(qkv, shape, query_norm.get(), key_norm.get(), table);
            return Tensors{heads.query, heads.key, heads.value};
          }};
}

std::vector<Case> CrossEntropyCases(const Settings& s, at::ScalarType type) {
  const at::Tensor logits = Random({s.rows, s.columns}, type);
  const at::Tensor labels = at::randint(s.columns, {s.rows}, at::kLong), lse = at::full({s.rows}, 11.0f);
  const double bytes = static_cast<double>(logits.nbytes());
  const LogitColumns columns{0, s.columns};
  const auto statistics = [=] {
    StatisticsOfLogits(logits, labels, columns);
    return Tensors{};
  };
  const auto gradient = [=] {
    LogitsToGradient(logits, labels, columns, lse, 1e-3);
    return Tensors{};
  };
  return {{"cross_entropy", bytes, 0, logits, statistics},
          {"cross_entropy gradient", 2 * bytes, 0, logits, gradient}};
}

Case AdamWCase(const Settings& s, at::ScalarType type) {
  const int64_t n = s.rows * s.columns;
  const AdamWTensors t{Random({n}, at::kFloat), at::zeros({n}), at::zeros({n}), Random({n}, at::kFloat),
                       Random({n}, type)};
  const auto ours = [=] {
    AdamW(t, {});
    return Tensors{};
  };
  const auto fused = [=] {
    Tensors master{t.master}, gradient{t.gradient}, m{t.exp_avg}, v{t.exp_avg_sq};
    at::_fused_adamw_(master, gradient, m, v, {}, {at::tensor(1.0f)}, 1e-3, 0.9, 0.999, 0.01, 1e-8,
                      /*amsgrad=*/false, /*maximize=*/false);
    t.parameter.copy_(t.master);
    return Tensors{};
  };
  const bool loops = type == at::kFloat || type == at::kBFloat16;
  return {"adamw",
          static_cast<double>(n) * (28.0 + static_cast<double>(t.parameter.element_size())),
          0,
          t.master,
          ours,
          fused,
          {.loops = loops ? "" : "loops write fp32 and bf16 parameters only"}};
}

std::vector<Case> SumCases(const Settings& s, at::ScalarType type) {
  const int64_t n = s.rows * s.columns;
  const at::Tensor sum = Random({n}, at::kFloat), addend = Random({n}, type);
  const bool loops = type == at::kFloat || type == at::kBFloat16;
  std::vector<Case> cases = {{"accumulate",
                              static_cast<double>(n) * (8.0 + static_cast<double>(addend.element_size())),
                              0,
                              sum,
                              [=] {
                                AddInto(sum, addend);
                                return Tensors{};
                              },
                              {},
                              {.loops = loops ? "" : "loops add fp32 and bf16 only"}}};
  if (type == at::kFloat) {
    cases.push_back({"gradient_norm", static_cast<double>(n) * 4, 0, sum, [=] {
                       SumOfSquares(sum);
                       return Tensors{};
                     }});
  }
  return cases;
}

// Bytes read and written by a plain copy, a second.
double CopyRate(const Settings& s, at::ScalarType type) {
  const at::Tensor from = at::zeros({s.rows, s.columns}, type), to = at::zeros_like(from);
  double best = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < s.repeats; ++i) best = std::min(best, Seconds([&] { to.copy_(from); }));
  return 2 * static_cast<double>(from.nbytes()) / best;
}

void Measure(const Case& c, const Settings& s, const char* dtype, double copy_rate) {
  if (!s.only.empty() && c.op.find(s.only) == std::string::npos) return;
  std::unique_ptr<KernelsFirst> kernels;
  const auto first = [&] {
    if (s.impl == "ascendc") kernels = std::make_unique<KernelsFirst>();
  };
  first();
  const Version version = Choose(c.op.substr(0, c.op.find(' ')), c.typed.detach(),
                                 {.loops = c.against.loops,
                                  .kernel = c.against.kernel,
                                  .vendor = c.op == "rms_norm" || c.op == "swiglu"})
                              .version;
  Best ours, aten;
  for (int64_t i = 0; i <= s.repeats; ++i) {  // in turns: the machine may be shared
    RunOnce(c.run, ours);
    const ReferenceOnly guard;
    RunOnce(c.aten ? c.aten : c.run, aten);
  }
  if (version == Version::kReference && !c.aten) aten = ours;
  const auto line = [&](const char* direction, double us, double aten_us, double bytes) {
    std::cout << JsonLine({{"op", c.op},
                           {"dtype", dtype},
                           {"shape", {s.rows, s.columns}},
                           {"direction", direction},
                           {"us", us * 1e6},
                           {"aten_us", aten_us * 1e6},
                           {"ratio", aten_us / us},
                           {"gbs", bytes / us / 1e9},
                           {"copy_gbs", copy_rate / 1e9},
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
  const double copy_rate = CopyRate(s, type);
  const auto measure = [&](const Case& c) { Measure(c, s, dtype, copy_rate); };
  measure(RmsNormCase(s, type));
  measure(SwigluCase(s, type));
  measure(RotaryCase(s, type));
  for (const Case& c : CrossEntropyCases(s, type)) measure(c);
  measure(AdamWCase(s, type));
  for (const Case& c : SumCases(s, type)) measure(c);
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
