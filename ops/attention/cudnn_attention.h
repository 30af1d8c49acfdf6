// cuDNN's causal attention through ATen's own operators, called directly: which kernel runs is not left to
// ATen's choice. No autograd here: ops/attention/attention.cc has the rule.
#pragma once

#include <string>

#include "ops/attention/attention_blocks.h"

namespace trireme {

std::string WhyNotCudnnAttention(const at::Tensor& query);

// Heads may be strided as long as a head's elements lie together. A new shape costs cuDNN some 50 ms once.
AttentionResult CudnnAttention(const Heads& heads);
Heads CudnnAttentionBackward(const Heads& heads, const AttentionResult& result, const at::Tensor& output_gradient);

}  // namespace trireme
