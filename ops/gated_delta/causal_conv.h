// A causal convolution over the tokens of each channel, then silu, as before the gated delta rule: token t of a run
// gets silu(Σ_j weight[taps - 1 - j] · x[t - j]) over the tokens of its run and its prefix. With autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "ops/gated_delta/delta_chunks.h"

namespace trireme {

// x: [tokens, channels]; weight: [channels, taps] fp32; places: PlacesInRuns with as many taps. In x's dtype, computed
// in fp32.
at::Tensor CausalConv(const at::Tensor& x, const at::Tensor& weight, std::shared_ptr<const ConvPlaces> places);

}  // namespace trireme
