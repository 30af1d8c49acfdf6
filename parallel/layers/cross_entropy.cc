#include "parallel/layers/cross_entropy.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

#include "parallel/graph/specs.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Shard {
  const Weight& weight;
  Communicator& group;
  int64_t begin;      // first token id of this rank
  int64_t true_rows;  // rows that are no padding
};

// Turns the chunk's logits into the gradient of its summed loss, in place, and returns that loss.
at::Tensor LossAndGradient(const at::Tensor& logits, const at::Tensor& labels, const Shard& shard) {
  if (shard.true_rows < logits.size(1)) {
    logits.narrow(1, shard.true_rows, logits.size(1) - shard.true_rows)
        .fill_(-std::numeric_limits<float>::infinity());
  }
  const at::Tensor largest = logits.amax(1);  // [tokens]
  AllReduce(largest, shard.group, ReduceOp::kMax);
  logits.sub_(largest.unsqueeze(1));
  const at::Tensor local = labels - shard.begin;
  const at::Tensor held = local.ge(0).logical_and(local.lt(shard.true_rows));
  const at::Tensor index = (local * held).unsqueeze(1);
  // Both sums travel in one message: exponentials, and the logit of the label.
  at::Tensor sums = at::empty({2, logits.size(0)}, logits.options());
  sums[1].copy_(logits.gather(1, index).squeeze(1) * held);
  logits.exp_();
  sums[0].copy_(logits.sum(1));
  AllReduce(sums, shard.group);
  logits.div_(sums[0].unsqueeze(1));
  logits.scatter_add_(1, index, held.to(logits.scalar_type()).neg().unsqueeze(1));
  return (sums[0].log() - sums[1]).sum();
}

struct CrossEntropyFunction : torch::autograd::Function<CrossEntropyFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& labels,
                            const Shard* shard, const CrossEntropyOptions* options) {
    const bool differentiate = hidden.requires_grad();
    const at::Tensor trained = labels.ne(kNotTrained).nonzero().squeeze(1);
    const at::Tensor inputs = hidden.index_select(0, trained), targets = labels.index_select(0, trained);
    const at::Tensor& weight = shard->weight.value;
    at::Tensor gradient = differentiate ? at::zeros_like(inputs) : at::Tensor();
    at::Tensor loss = at::zeros({}, hidden.options().dtype(at::kFloat));
    const int64_t chunk = std::max<int64_t>(options->chunk_elements / weight.size(0), 1);
    for (int64_t begin = 0; begin < inputs.size(0); begin += chunk) {
      const int64_t count = std::min(chunk, inputs.size(0) - begin);
      const at::Tensor x = inputs.narrow(0, begin, count);
      at::Tensor logits = at::mm(x, weight.t()).to(at::kFloat);
      loss += LossAndGradient(logits, targets.narrow(0, begin, count), *shard);
      if (!differentiate) continue;
      const at::Tensor narrow = logits.mul_(options->scale).to(weight.scalar_type());
      gradient.narrow(0, begin, count).copy_(at::mm(narrow, weight));
      if (shard->weight.trained()) {
        at::Tensor sum = shard->weight.gradient;
        sum.add_(at::mm(narrow.t(), x));
      }
    }
    if (differentiate) {
      context->save_for_backward({at::zeros_like(hidden).index_copy_(0, trained, gradient)});
    }
    return loss.mul_(options->scale);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {
        context->get_saved_variables()[0] * gradients[0].to(context->get_saved_variables()[0].scalar_type()),
        at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor ShardedCrossEntropy(const at::Tensor& hidden, const at::Tensor& labels, const Weight& weight,
                               Communicator& group, const CrossEntropyOptions& options) {
  const int64_t rows = weight.value.size(0), begin = group.rank() * rows;
  const Shard shard{weight, group, begin, std::clamp<int64_t>(options.vocabulary - begin, 0, rows)};
  return CrossEntropyFunction::apply(hidden, labels, &shard, &options);
}

}  // namespace trireme
