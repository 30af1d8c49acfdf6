// Tokens into the order of their experts and back: a token is copied to each of its places, and what stands
// at its places is summed. The two are adjoint to each other; who differentiates is parallel/experts. Places
// are rows of a buffer, given for each token; -1: this one goes nowhere.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme {

// x: [tokens, size]; places: [tokens, k] int64, each row of [0, rows) named once; with `gaps` some are not,
// and stay zero. Returns [rows, size].
at::Tensor SpreadRows(const at::Tensor& x, const at::Tensor& places, int64_t rows, bool gaps = false);

// rows: [copies · R, size], where each place counts R rows apart `copies` times. Returns [tokens, size],
// summed in fp32.
at::Tensor SumRows(const at::Tensor& rows, const at::Tensor& places, int64_t copies = 1);

}  // namespace trireme
