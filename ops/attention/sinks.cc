#include "ops/attention/sinks.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "ops/attention/ascendc.h"
#include "ops/kernel_place.h"
#include "ops/operator.h"

namespace trireme {
namespace {

// [kv_heads, 1, group] fp32: as it meets [rows, kv_heads, length, group].
at::Tensor AmongQueries(const at::Tensor& sinks) { return sinks.to(at::kFloat).unsqueeze(1); }

struct SinkCase {
  const PartialAttention& partial;
  const at::Tensor& sinks;
};

// [rows, length, kv_heads, group, …]
at::Tensor ByToken(const at::Tensor& heads) { return heads.transpose(1, 2); }

ascendc::SinkShape ShapeOfSinks(const SinkCase& c) {
  return {.rows = static_cast<uint64_t>(c.partial.log_sum_exp.numel()),
          .columns = static_cast<uint64_t>(c.partial.output.size(-1)),
          .heads = static_cast<uint64_t>(c.sinks.numel())};
}

void KernelOfSinks(const SinkCase& c) {
  const at::Tensor output = ByToken(c.partial.output), sums = ByToken(c.partial.log_sum_exp);
  const ascendc::SinkShape shape = ShapeOfSinks(c);
  const auto heads = static_cast<int64_t>(shape.heads), all = heads + static_cast<int64_t>(ascendc::kSinksAgain);
  const at::Tensor sinks = c.sinks.to(at::kFloat).flatten().repeat({(all + heads - 1) / heads});
  ascendc::AttentionSinks(PlaceOf(output), ElementOf(output), output.data_ptr(), sums.mutable_data_ptr<float>(),
                          sinks.const_data_ptr<float>(), shape);
}

void ReferenceOfSinks(const SinkCase& c) {
  const at::Tensor scores = AmongQueries(c.sinks);
  at::Tensor output = c.partial.output, sum = c.partial.log_sum_exp;
  const at::Tensor keeps = (sum - scores).sigmoid_().unsqueeze(-1);
  if (output.scalar_type() == at::kFloat) {
    output.mul_(keeps);
  } else {
    output.copy_(output.to(at::kFloat).mul_(keeps));
  }
  sum.copy_(at::logaddexp(sum, scores));
}

std::string WhyNotKernelOfSinks(const SinkCase& c) {
  const at::Tensor& output = c.partial.output;
  if (output.is_cpu() && !KernelsAreWanted()) return "ATen was measured faster on the cpu";
  if (output.dim() != 5) return WhyNoKernel(output);
  if (!ByToken(output).is_contiguous() || !ByToken(c.partial.log_sum_exp).is_contiguous())
    return "heads are not token by token";
  if (std::string why = WhyNoKernel(ByToken(output)); !why.empty()) return why;
  const char* why = ascendc::WhyNotSinks(ElementOf(output), ShapeOfSinks(c));
  return why == nullptr ? "" : why;
}

const ImplementationList<SinkCase, decltype(&ReferenceOfSinks)> kSinks{
    "attention_sinks", {{"ascendc", WhyNotKernelOfSinks, KernelOfSinks}, {"aten", nullptr, ReferenceOfSinks}}};

}  // namespace

void ApplySinks(const PartialAttention& partial, const at::Tensor& sinks) {
  if (partial.log_sum_exp.numel() == 0) return;
  const SinkCase given{partial, sinks};
  kSinks.Choose(given).forward(given);
}

at::Tensor SinksGradient(const AttendedQueries& queries, const at::Tensor& sinks) {
  const at::Tensor probability = (AmongQueries(sinks) - queries.log_sum_exp).exp_();
  return (probability * queries.dot()).sum(at::IntArrayRef({0, 2})).neg_();
}

namespace {

// Heads of 64, eight queries per key-value head, token by token.
std::vector<BenchCase> BenchSinks(const BenchSize& s) {
  constexpr int64_t kDim = 64, kGroup = 8;
  const int64_t heads = std::max<int64_t>(s.columns / kDim / kGroup, 1);
  const PartialAttention partial{BenchInput({1, s.rows, heads, kGroup, kDim}, s.type).transpose(1, 2),
                                 BenchInput({1, s.rows, heads, kGroup}, at::kFloat).transpose(1, 2)};
  const at::Tensor sinks = BenchInput({heads, kGroup}, s.type);
  return {{.forward_bytes = 2 * static_cast<double>(partial.output.nbytes()), .run = [=] {
             ApplySinks(partial, sinks);
             return BenchCase::Tensors{};
           }}};
}

CaseReport ReportSinks(const char* shape, const at::Tensor& output) {
  const PartialAttention partial{output, at::empty(output.sizes().slice(0, 4), output.options().dtype(at::kFloat))};
  return kSinks.Report(shape, {partial, partial.log_sum_exp});
}

}  // namespace

Operator operators::attention_sinks() {
  return {.name = kSinks.op(),
          .summary = "a score per head that takes its part in the softmax, applied to finished attention",
          .implementations = kSinks.names(),
          .report =
              [](const at::Tensor& like) {
                return std::vector{ReportSinks("[heads of 64]", at::empty({1, 1, 1, 8, 64}, like.options())),
                                   ReportSinks("[heads of 20]", at::empty({1, 1, 1, 8, 20}, like.options()))};
              },
          .bench = BenchSinks};
}

}  // namespace trireme
