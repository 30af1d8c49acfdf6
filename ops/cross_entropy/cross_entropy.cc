#include "ops/cross_entropy/cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <limits>

#include "ops/cross_entropy/ascendc.h"
#include "ops/cross_entropy/cpu.h"
#include "ops/cuda/launch.h"
#include "ops/element_types.h"
#include "ops/kernel_place.h"
#include "ops/operator.h"

namespace trireme {
namespace {

struct Picked {
  at::Tensor held;   // [tokens] bool
  at::Tensor index;  // [tokens, 1], 0 if not held
};

Picked Pick(const at::Tensor& labels, const LogitColumns& columns) {
  const at::Tensor local = labels - columns.first;
  const at::Tensor held = local.ge(0).logical_and(local.lt(columns.count));
  return {held, (local * held).unsqueeze(1)};
}

LogitStatistics ReferenceStatistics(const at::Tensor& logits, const at::Tensor& labels, const LogitColumns& columns) {
  const auto options = logits.options().dtype(at::kFloat);
  if (columns.count == 0) {
    const at::Tensor zeros = at::zeros({logits.size(0)}, options);
    return {at::full_like(zeros, -std::numeric_limits<float>::infinity()), zeros, zeros.clone()};
  }
  const at::Tensor wide = logits.narrow(1, 0, columns.count).to(at::kFloat);
  const at::Tensor largest = wide.amax(1);
  const auto [held, index] = Pick(labels, columns);
  return {largest, (wide - largest.unsqueeze(1)).exp().sum(1), wide.gather(1, index).squeeze(1) * held};
}

void ReferenceGradientOfCrossEntropy(const at::Tensor& logits, const at::Tensor& labels, const LogitColumns& columns,
                                     const at::Tensor& log_sum_exp, double scale) {
  logits.narrow(1, columns.count, logits.size(1) - columns.count).zero_();
  if (columns.count == 0) return;
  const auto [held, index] = Pick(labels, columns);
  at::Tensor wide = (logits.narrow(1, 0, columns.count).to(at::kFloat) - log_sum_exp.unsqueeze(1)).exp_();
  wide.scatter_add_(1, index, held.to(at::kFloat).neg().unsqueeze(1));
  logits.narrow(1, 0, columns.count).copy_(wide.mul_(scale));
}

cpu::LogitRows RowsOf(const at::Tensor& logits, const at::Tensor& labels, const LogitColumns& columns) {
  return {.stride = logits.size(1),
          .columns = columns.count,
          .labels = Data<int64_t>(labels),
          .first_token = columns.first};
}

ascendc::LogitShape ShapeOfCrossEntropy(const at::Tensor& logits, const LogitColumns& columns) {
  return {static_cast<uint64_t>(logits.size(0)), static_cast<uint64_t>(columns.count),
          static_cast<uint64_t>(logits.size(1)), static_cast<uint64_t>(columns.first)};
}

LogitStatistics EmptyStatistics(const at::Tensor& logits) {
  const at::Tensor largest = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  return {largest, at::empty_like(largest), at::empty_like(largest)};
}

LogitStatistics KernelStatistics(const at::Tensor& logits, const at::Tensor& given_labels,
                                 const LogitColumns& columns) {
  const at::Tensor labels = given_labels.contiguous();
  const LogitStatistics out = EmptyStatistics(logits);
  ascendc::LogitStatistics(PlaceOf(logits), ElementOf(logits), logits.data_ptr(), Data<int64_t>(labels),
                           ShapeOfCrossEntropy(logits, columns), Data<float>(out.largest), Data<float>(out.sum),
                           Data<float>(out.picked));
  return out;
}

void KernelGradient(const at::Tensor& logits, const at::Tensor& given_labels, const LogitColumns& columns,
                    const at::Tensor& log_sum_exp, double scale) {
  const at::Tensor labels = given_labels.contiguous();
  ascendc::LogitGradient(PlaceOf(logits), ElementOf(logits), logits.data_ptr(), Data<int64_t>(labels),
                         ShapeOfCrossEntropy(logits, columns), Data<float>(log_sum_exp), static_cast<float>(scale));
}

cuda::LogitArgs ArgsOfCrossEntropy(const at::Tensor& logits, const at::Tensor& labels, const LogitColumns& columns) {
  return {.logits = logits.data_ptr(),
          .labels = Data<int64_t>(labels),
          .rows = logits.size(0),
          .columns = columns.count,
          .stride = logits.size(1),
          .first_token = columns.first};
}

LogitStatistics CudaStatistics(const at::Tensor& logits, const at::Tensor& given_labels, const LogitColumns& columns) {
  const at::Tensor labels = given_labels.contiguous();
  const LogitStatistics out = EmptyStatistics(logits);
  CheckLaunch(
      CudaKernels().logit_statistics(ArgsOfCrossEntropy(logits, labels, columns), Data<float>(out.largest),
                                     Data<float>(out.sum), Data<float>(out.picked), IsBf16(logits), CudaStream()),
      "cross_entropy");
  return out;
}

void CudaGradientOfCrossEntropy(const at::Tensor& logits, const at::Tensor& given_labels, const LogitColumns& columns,
                                const at::Tensor& given_log_sum_exp, double scale) {
  const at::Tensor labels = given_labels.contiguous(), log_sum_exp = given_log_sum_exp.contiguous();
  CheckLaunch(CudaKernels().logit_gradient(ArgsOfCrossEntropy(logits, labels, columns), Data<float>(log_sum_exp),
                                           static_cast<float>(scale), IsBf16(logits), CudaStream()),
              "cross_entropy");
}

LogitStatistics FastStatistics(const at::Tensor& logits, const at::Tensor& given_labels, const LogitColumns& columns) {
  const at::Tensor labels = given_labels.contiguous();
  const LogitStatistics out = EmptyStatistics(logits);
  const cpu::LogitSums sums{Data<float>(out.largest), Data<float>(out.sum), Data<float>(out.picked)};
  ByType(logits, [&](auto type) {
    using T = decltype(type);
    at::parallel_for(0, logits.size(0), GrainOfRows(logits.size(1)), [&](int64_t begin, int64_t end) {
      cpu::LogitStatistics(Data<T>(logits), RowsOf(logits, labels, columns), {begin, end}, sums);
    });
  });
  return out;
}

void FastGradientOfCrossEntropy(const at::Tensor& logits, const at::Tensor& given_labels, const LogitColumns& columns,
                                const at::Tensor& log_sum_exp, double scale) {
  const at::Tensor labels = given_labels.contiguous();
  ByType(logits, [&](auto type) {
    using T = decltype(type);
    at::parallel_for(0, logits.size(0), GrainOfRows(logits.size(1)), [&](int64_t begin, int64_t end) {
      cpu::LogitsToGradient(Data<T>(logits), RowsOf(logits, labels, columns), {begin, end}, Data<float>(log_sum_exp),
                            static_cast<float>(scale));
    });
  });
}

struct LogitsCase {
  const at::Tensor& logits;
  int64_t columns = 0;  // valid ones
};

std::string WhyNotLoopsOfCrossEntropy(const LogitsCase& c) { return WhyNoLoops(c.logits); }
std::string WhyNotCudaOfCrossEntropy(const LogitsCase& c) { return WhyNoCudaKernel(c.logits); }
std::string WhyNotKernelOfCrossEntropy(const LogitsCase& c) {
  return Either(WhyNoKernel(c.logits), c.columns == 0 ? "no valid column" : "");
}

const ImplementationList<LogitsCase, decltype(&ReferenceStatistics), decltype(&ReferenceGradientOfCrossEntropy)>
    kCrossEntropy{"cross_entropy",
                  {{"cpu", WhyNotLoopsOfCrossEntropy, FastStatistics, FastGradientOfCrossEntropy},
                   {"cuda", WhyNotCudaOfCrossEntropy, CudaStatistics, CudaGradientOfCrossEntropy},
                   {"ascendc", WhyNotKernelOfCrossEntropy, KernelStatistics, KernelGradient},
                   {"aten", nullptr, ReferenceStatistics, ReferenceGradientOfCrossEntropy}}};

std::vector<BenchCase> BenchCrossEntropy(const BenchSize& s) {
  const at::Tensor logits = BenchInput({s.rows, s.columns}, s.type);
  const at::Tensor labels = at::randint(s.columns, {s.rows}, at::kLong), lse = at::full({s.rows}, 11.0f);
  const double bytes = static_cast<double>(logits.nbytes());
  const LogitColumns columns{0, s.columns};
  const auto statistics = [=] {
    StatisticsOfLogits(logits, labels, columns);
    return BenchCase::Tensors{};
  };
  const auto gradient = [=] {
    LogitsToGradient(logits, labels, columns, lse, 1e-3);
    return BenchCase::Tensors{};
  };
  return {{.forward_bytes = bytes, .run = statistics},
          {.forward_bytes = 2 * bytes, .run = gradient, .gradient = true, .variant = "gradient"}};
}

}  // namespace

LogitStatistics StatisticsOfLogits(const at::Tensor& logits, const at::Tensor& labels, const LogitColumns& columns) {
  return kCrossEntropy.Choose({logits, columns.count}).forward(logits, labels, columns);
}

void LogitsToGradient(const at::Tensor& logits, const at::Tensor& labels, const LogitColumns& columns,
                      const at::Tensor& log_sum_exp, double scale) {
  kCrossEntropy.Choose({logits, columns.count}).backward(logits, labels, columns, log_sum_exp, scale);
}

Operator operators::cross_entropy() {
  return {.name = kCrossEntropy.op(),
          .summary = "statistics of a vocabulary shard's logits, and their gradient in place",
          .implementations = kCrossEntropy.names(),
          .report =
              [](const at::Tensor& like) {
                return std::vector{kCrossEntropy.Report("[any, any]", {like, 1}),
                                   kCrossEntropy.Report("[any, 0]", {like, 0})};
              },
          .bench = BenchCrossEntropy};
}

}  // namespace trireme
