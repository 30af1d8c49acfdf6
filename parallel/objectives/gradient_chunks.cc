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

}  // namespace trireme
