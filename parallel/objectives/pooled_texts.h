// PooledTexts: from the hidden states of a micro batch to one vector for each of its documents, and the way of a
// gradient back. Collective over the ranks that split each row's tokens, which all have the same vectors.
#pragma once

#include <ATen/core/Tensor.h>

#include "core/comm/communicator.h"
#include "parallel/objectives/objective_options.h"
#include "parallel/pass/pass_input.h"

namespace trireme {

class PooledTexts {
 public:
  // hidden: [tokens, hidden], this rank's.
  PooledTexts(const at::Tensor& hidden, TextPooling pooling, const PassInput& input, Communicator& context);

  const at::Tensor& vectors() const { return vectors_; }  // [documents, hidden] fp32
  // Of a gradient of the vectors, that of the hidden states: of their shape and type.
  at::Tensor ToTokens(const at::Tensor& by_vector) const;

 private:
  const at::Tensor hidden_;
  at::Tensor tokens_, documents_;  // [counted] int64: tokens of this rank that count, and their documents
  at::Tensor shares_;              // [counted, 1] fp32: how much of its vector each is; undefined: all of it
  at::Tensor vectors_;
};

}  // namespace trireme
