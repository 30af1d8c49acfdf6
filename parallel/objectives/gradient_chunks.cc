#include "parallel/objectives/gradient_chunks.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "ops/linear/linear.h"

namespace trireme {
namespace {

// out = in · factors, row by row, in fp32 before rounding. In blocks: ATen would make full fp32 copies.
void ScaleRows(const at::Tensor& out, const at::Tensor& in, const at::Tensor& factors) {
  constexpr int64_t kBlock = 128;
  for (int64_t begin = 0; begin < in.size(0); begin += kBlock) {
    const int64_t size = std::min(kBlock, in.size(0) - begin);
    const at::Tensor rows = in.narrow(0, begin, size), factor = factors.narrow(0, begin, size).unsqueeze(1);
    out.narrow(0, begin, size).copy_(rows * factor);
  }
}

}  // namespace

GradientChunks::GradientChunks(const HeadStates& head, const TrainedTokens& trained, bool wanted)
    : head_(head), hidden_(wanted ? at::empty_like(trained.inputs) : at::Tensor()) {}

void GradientChunks::Add(const LogitChunk& chunk, const at::Tensor& weights, const at::Tensor& log_sum_exp) {
  // softmax - [column is the label]: minus the gradient of log p.
  LogitsToGradient(chunk.logits, chunk.labels, head_.columns, log_sum_exp, 1);
  if (chunk.slope.defined()) chunk.logits.mul_(chunk.slope);
  const at::Tensor minus = weights.narrow(0, chunk.begin, chunk.size()).neg();
  at::Tensor own = hidden_.narrow(0, chunk.begin, chunk.size());
  at::mm_out(own, chunk.logits, head_.weight.value);
  ScaleRows(own, own, minus);
  if (!head_.weight.trained()) return;
  const at::Tensor scaled = at::empty_like(chunk.inputs);
  ScaleRows(scaled, chunk.inputs, minus);
  AddWeightGradient(head_.weight, chunk.logits, scaled);
}

// With p the probabilities and H their entropy, d H / d logits = -p (log p + H).
void GradientChunks::AddWithEntropy(const LogitChunk& chunk, const at::Tensor& weights, const at::Tensor& log_sum_exp,
                                    const at::Tensor& entropies, double entropy_weight) {
  const int64_t block = chunk.logits.is_cpu() ? 32 : 1024,
                columns = head_.columns.count;  // tokens that are fp32 at once
  const at::Tensor own_weights = weights.narrow(0, chunk.begin, chunk.size());
  for (int64_t begin = 0; begin < chunk.size(); begin += block) {
    const auto of = [&](const at::Tensor& values) {
      return values.narrow(0, begin, std::min(block, chunk.size() - begin)).unsqueeze(1);
    };
    const at::Tensor logits = of(chunk.logits).squeeze(1).narrow(1, 0, columns);
    const at::Tensor log_probs = logits.to(at::kFloat) - of(log_sum_exp), probabilities = log_probs.exp();
    const at::Tensor gradient = probabilities * (of(own_weights).neg() - (log_probs + of(entropies)) * entropy_weight);
    const at::Tensor column = of(chunk.labels) - head_.columns.first;
    const at::Tensor here = column.ge(0).logical_and(column.lt(columns));
    gradient.scatter_add_(1, column.clamp(0, columns - 1), of(own_weights) * here.to(at::kFloat));
    logits.copy_(gradient);
  }
  Accumulate(chunk);
}

// With p the probabilities, d loss / d logits = p (1 + 2 z log_sum_exp) - (1 - smoothing) [column is the label]
// - smoothing / vocabulary.
void GradientChunks::AddWithPenalties(const LogitChunk& chunk, const at::Tensor& weights, const at::Tensor& log_sum_exp,
                                      const LogitPenalties& penalties) {
  const int64_t block = chunk.logits.is_cpu() ? 32 : 1024,
                columns = head_.columns.count;  // tokens that are fp32 at once
  const at::Tensor minus = weights.narrow(0, chunk.begin, chunk.size()).neg();
  const double everywhere = penalties.smoothing / static_cast<double>(head_.vocabulary);
  for (int64_t begin = 0; begin < chunk.size() && columns > 0; begin += block) {
    const auto of = [&](const at::Tensor& values) {
      return values.narrow(0, begin, std::min(block, chunk.size() - begin)).unsqueeze(1);
    };
    const at::Tensor logits = of(chunk.logits).squeeze(1).narrow(1, 0, columns);
    const at::Tensor gradient = (logits.to(at::kFloat) - of(log_sum_exp)).exp();
    gradient.mul_(of(log_sum_exp) * (2 * penalties.z_coefficient) + 1).sub_(everywhere);
    const at::Tensor column = of(chunk.labels) - head_.columns.first;
    const at::Tensor here = column.ge(0).logical_and(column.lt(columns)).to(at::kFloat);
    gradient.scatter_add_(1, column.clamp(0, columns - 1), here * (penalties.smoothing - 1));
    logits.copy_(gradient.mul_(of(minus)));
  }
  Accumulate(chunk);
}

// The chunk's logits are the gradient of the loss now.
void GradientChunks::Accumulate(const LogitChunk& chunk) {
  const int64_t columns = head_.columns.count;
  chunk.logits.narrow(1, columns, chunk.logits.size(1) - columns).zero_();
  if (chunk.slope.defined()) chunk.logits.mul_(chunk.slope);
  at::Tensor own = hidden_.narrow(0, chunk.begin, chunk.size());
  at::mm_out(own, chunk.logits, head_.weight.value);
  AddWeightGradient(head_.weight, chunk.logits, chunk.inputs);
}

}  // namespace trireme
