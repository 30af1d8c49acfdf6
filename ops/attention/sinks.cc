#include "ops/attention/sinks.h"

#include <ATen/ATen.h>

namespace trireme {
namespace {

// [kv_heads, 1, group] fp32: as it meets [rows, kv_heads, length, group].
at::Tensor AmongQueries(const at::Tensor& sinks) { return sinks.to(at::kFloat).unsqueeze(1); }

}  // namespace

void ApplySinks(const PartialAttention& partial, const at::Tensor& sinks) {
  const at::Tensor scores = AmongQueries(sinks);
  at::Tensor output = partial.output, sum = partial.log_sum_exp;
  output.mul_((sum - scores).sigmoid_().unsqueeze(-1));
  sum.copy_(at::logaddexp(sum, scores));
}

at::Tensor SinksGradient(const AttendedQueries& queries, const at::Tensor& sinks) {
  const at::Tensor probability = (AmongQueries(sinks) - queries.log_sum_exp).exp_();
  return (probability * queries.dot()).sum(at::IntArrayRef({0, 2})).neg_();
}

}  // namespace trireme
