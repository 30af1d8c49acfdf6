// Cross-entropy of logits that are never whole: over the ranks' shards of the vocabulary, over chunks of
// tokens. Gives the loss and, in the same pass, the gradients of the hidden states and of the weight. Logits
// stay in the type of the computation; what is summed over them is fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/comm/communicator.h"
#include "core/tensor/weight.h"

namespace trireme {

struct CrossEntropyOptions {
  int64_t vocabulary = 0;                   // the true one; rows of the last shards beyond it are padding
  double scale = 1;                         // of the loss and of all gradients
  double gradient_weight = 1;               // of the gradients alone: what the loss counts beside others
  int64_t chunk_bytes = int64_t{64} << 20;  // of logits in memory at a time, in the computation's type
};

// hidden: [tokens, size] on every rank, labels: [tokens] int64, -100: not trained. The weight ([vocabulary /
// ranks, size]) sums its gradient where it is trained and the hidden states require one. The gradient that
// autograd hands on is this rank's part of a sum over the group.
at::Tensor ShardedCrossEntropy(const at::Tensor& hidden, const at::Tensor& labels, const Weight& weight,
                               Communicator& group, const CrossEntropyOptions& options);

// For evaluations: [loss, trained tokens whose label has the largest logit], fp32. Of equal logits the one
// with the smallest token id counts, as in argmax over whole logits. Makes no gradient.
at::Tensor LossAndHits(const at::Tensor& hidden, const at::Tensor& labels, const Weight& weight,
                       Communicator& group, const CrossEntropyOptions& options);

}  // namespace trireme
