// `trireme bench ops`: times each operator of ops/ with the implementation that would run, or one that is
// requested, against its reference (AdamW: ATen's fused one) and against a plain copy, all in one
// run. One JSON line per operator, type and direction. The operators, their cases and the names come from
// their own lists.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <malloc.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/nearest.h"
#include "core/base/process.h"
#include "core/base/text.h"
#include "core/cli/command.h"
#include "core/comm/job.h"
#include "core/config/help.h"
#include "core/tensor/torch_errors.h"
#include "ops/operator.h"
#include "ops/switches.h"

namespace trireme {
namespace {

using Tensors = BenchCase::Tensors;

constexpr char kChosen[] = "chosen";

struct Settings {
  int64_t rows = 0, columns = 0, repeats = 0;
  std::string only, impl;
};

struct BestTimes {
  double forward = std::numeric_limits<double>::infinity(), backward = forward;
};

double Seconds(const std::function<void()>& work) {
  const Clock::time_point start = Clock::now();
  work();
  return SecondsSince(start);
}

// Clears the gradient, which would otherwise accumulate, unlike an activation's in a real run.
void RunOnce(const std::function<Tensors()>& run, at::Tensor input, BestTimes& best) {
  Tensors results;
  if (input.defined()) input.mutable_grad().reset();
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
  // Bytes read and written per second.
  double rate() const { return 2 * static_cast<double>(from_.nbytes()) / best_; }

 private:
  at::Tensor from_, to_;
  double best_ = std::numeric_limits<double>::infinity();
};

// What ran, according to the operator's choice.
struct Measured {
  BestTimes ours, aten;
  std::string impl;
  double peak_gib = 0;  // of the process while it ran, inputs included
};

Measured MeasureInTurns(const Operator& op, const BenchCase& c, const Settings& s, Copy& copy) {
  Measured found;
  for (int64_t i = 0; i <= s.repeats; ++i) {  // alternating: the machine may be shared
    {
      const ChoiceRecord record;
      std::optional<OnlyImplementation> asked;
      if (s.impl != kChosen) asked.emplace(s.impl);
      RunOnce(c.run, c.input, found.ours);
      found.impl = record.ChosenFor(op.name);
    }
    copy.Run();
    const ReferenceOnly guard;
    RunOnce(c.aten ? c.aten : c.run, c.input, found.aten);
  }
  if (found.impl == op.implementations.back() && !c.aten) found.aten = found.ours;
  found.peak_gib = static_cast<double>(PeakResidentBytes()) / (1 << 30);
  return found;
}

void Measure(const Operator& op, const BenchCase& c, const Settings& s, const char* dtype, Copy copy) {
  const std::string label = c.variant.empty() ? op.name : Concat(op.name, " ", c.variant);
  const Measured found = MeasureInTurns(op, c, s, copy);
  const auto line = [&](const char* direction, double us, double aten_us, double bytes) {
    std::cout << JsonLine({{"op", label},
                           {"dtype", dtype},
                           {"shape", c.shape.empty() ? std::vector<int64_t>{s.rows, s.columns} : c.shape},
                           {"direction", direction},
                           {"us", us * 1e6},
                           {"aten_us", aten_us * 1e6},
                           {"ratio", aten_us / us},
                           {"gbs", bytes / us / 1e9},
                           {"copy_gbs", copy.rate() / 1e9},
                           {"impl", found.impl},
                           {"peak_memory_gib", found.peak_gib},
                           {"threads", at::get_num_threads()}})
              << "\n"
              << std::flush;
  };
  line(c.gradient ? "backward" : "forward", found.ours.forward, found.aten.forward, c.forward_bytes);
  if (c.backward_bytes > 0) line("backward", found.ours.backward, found.aten.backward, c.backward_bytes);
}

bool IsAskedFor(const std::string& op, const Settings& s) {
  return s.only.empty() || op.find(s.only) != std::string::npos;
}

// One operator at a time: all at once would need much memory.
void MeasureType(const Settings& s, at::ScalarType type, const char* dtype) {
  const Copy copy(s, type);
  for (const Operator& op : Operators()) {
    if (!IsAskedFor(op.name, s)) continue;
    ResetPeakResident();
    for (const BenchCase& c : op.bench({s.rows, s.columns, type})) Measure(op, c, s, dtype, copy);
  }
}

// Of all operators, in order of first appearance.
std::vector<std::string> ImplementationNames() {
  std::vector<std::string> names;
  for (const Operator& op : Operators()) {
    for (const std::string& name : op.implementations) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

void RefuseUnknown(const Settings& s) {
  const std::vector<std::string>& ops = OperatorNames();
  if (std::none_of(ops.begin(), ops.end(), [&](const std::string& op) { return IsAskedFor(op, s); })) {
    const auto near = Nearest(s.only, ops);
    throw InputError("--op ", s.only, ": no operator has this in its name; ",
                     near ? Concat("did you mean ", *near, "? ") : "", "The operators are: ", Join(ops));
  }
  const std::vector<std::string> impls = ImplementationNames();
  if (s.impl != kChosen && std::find(impls.begin(), impls.end(), s.impl) == impls.end())
    throw InputError("--impl ", s.impl, ": wanted ", kChosen, " or one of ", Join(impls));
}

void BenchOps(const Arguments& arguments, Job& job) {
  Settings s{arguments.integer("rows", 4096, 1), arguments.integer("columns", 4096, 1),
             arguments.integer("repeats", 7, 1), arguments.value("op"), arguments.value("impl", kChosen)};
  RefuseUnknown(s);
  const std::string dtype = arguments.value("dtype");
  const std::pair<const char*, at::ScalarType> types[] = {
      {"bf16", at::kBFloat16}, {"fp32", at::kFloat}, {"fp16", at::kHalf}};
  if (!dtype.empty() && dtype != "bf16" && dtype != "fp32" && dtype != "fp16")
    throw InputError("--dtype ", dtype, ": wanted bf16, fp32 or fp16");
  if (job.rank() != 0) return;
  mallopt(M_MMAP_MAX, 0);  // keep freed memory, as in a training run: no page faults in the timings
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  for (const auto& [name, type] : types) {
    if (dtype.empty() ? type != at::kHalf : dtype == name) MeasureType(s, type, name);
  }
}

}  // namespace

Command BenchOpsCommand() {
  return {.name = "bench ops",
          .summary =
              "Times each operator on the cpu against its ATen reference (AdamW: against ATen's fused one) in "
              "one\n"
              "run, one JSON line each; gbs is bytes read and written over time, copy_gbs the same for "
              "a\n"
              "plain copy, peak_memory_gib the process's memory with the operator's inputs.\n" +
              Wrapped(Concat("Operators: ", Join(OperatorNames())), "") +
              Wrapped(Concat("Implementations: ", Join(ImplementationNames())), ""),
          .options = {{.name = "rows", .value_name = "N", .help = "by default 4096"},
                      {.name = "columns", .value_name = "N", .help = "by default 4096"},
                      {.name = "dtype", .value_name = "TYPE", .help = "bf16, fp32 or fp16; by default bf16 and fp32"},
                      {.name = "op", .value_name = "NAME", .help = "only operators with this in their name"},
                      {.name = "impl",
                       .value_name = "NAME",
                       .help = "chosen (as in training; the default), or one by name, where an operator has it"},
                      {.name = "repeats", .value_name = "N", .help = "runs, of which the best counts; by default 7"}},
          .run = [](const Arguments& arguments, Job& job) { WithTorchErrors([&] { BenchOps(arguments, job); }); }};
}

}  // namespace trireme
