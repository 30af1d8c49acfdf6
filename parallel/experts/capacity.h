// Which choices experts of limited capacity keep, decided on the device that has them, so that the host need not wait.
// KeepLargest of dispatch_plan.h does the same on the host.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme {

// `chosen` with -1 where an expert has `capacity` choices of larger weight or, among equal ones, of earlier tokens.
// chosen, weights: [tokens, k] int64 and fp32; order: [tokens] int64, a permutation: each token's position in the micro
// batch.
at::Tensor KeptChoices(const at::Tensor& chosen, const at::Tensor& weights, const at::Tensor& order, int64_t experts,
                       int64_t capacity);

}  // namespace trireme
