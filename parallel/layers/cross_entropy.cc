#include "parallel/layers/cross_entropy.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "ops/linear.h"
#include "ops/softmax_cross_entropy.h"
#include "parallel/graph/specs.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Shard {
  const Weight& weight;
  Communicator& group;
  LogitColumns columns;  // token ids of this rank, padding left out
};

struct ChunkLoss {
  at::Tensor log_sum_exp;  // [tokens], over all ranks
  at::Tensor loss;         // summed over the chunk's tokens
};

ChunkLoss LossOf(const at::Tensor& logits, const at::Tensor& labels, const Shard& shard) {
  const LogitStatistics local = StatisticsOfLogits(logits, labels, shard.columns);
  const at::Tensor largest = local.largest.clone();
  AllReduce(largest, shard.group, ReduceOp::kMax);
  // Both sums travel in one message: exponentials, and the logit of the label.
  const at::Tensor sums = at::stack({local.sum * (local.largest - largest).exp(), local.picked});
  AllReduce(sums, shard.group);
  const at::Tensor log_sum_exp = largest + sums[0].log();
  return {log_sum_exp, (log_sum_exp - sums[1]).sum()};
}

// Equal chunks, each of at least one token and at most as many bytes of logits as asked for.
int64_t TokensAChunk(int64_t tokens, const at::Tensor& weight, const CrossEntropyOptions& options) {
  const int64_t token_bytes = std::max<int64_t>(weight.size(0) * weight.element_size(), 1);
  const int64_t most = std::max<int64_t>(options.chunk_bytes / token_bytes, 1);
  const int64_t chunks = std::max<int64_t>((tokens + most - 1) / most, 1);
  return std::max<int64_t>((tokens + chunks - 1) / chunks, 1);
}

struct CrossEntropyFunction : torch::autograd::Function<CrossEntropyFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& labels,
                            const Shard* shard, const CrossEntropyOptions* options) {
    const bool differentiate = hidden.requires_grad();
    const at::Tensor trained = labels.ne(kNotTrained).nonzero().squeeze(1);
    const at::Tensor inputs = hidden.index_select(0, trained), targets = labels.index_select(0, trained);
    const at::Tensor& weight = shard->weight.value;
    at::Tensor gradient = differentiate ? at::empty_like(inputs) : at::Tensor();
    at::Tensor loss = at::zeros({}, hidden.options().dtype(at::kFloat));
    const int64_t chunk = TokensAChunk(inputs.size(0), weight, *options);
    // One piece of memory for all chunks: fresh pages cost as much as a pass over them.
    const at::Tensor room = at::empty({std::min(chunk, inputs.size(0)), weight.size(0)}, weight.options());
    for (int64_t begin = 0; begin < inputs.size(0); begin += chunk) {
      const int64_t count = std::min(chunk, inputs.size(0) - begin);
      const at::Tensor x = inputs.narrow(0, begin, count), chosen = targets.narrow(0, begin, count);
      at::Tensor logits = room.narrow(0, 0, count);
      at::mm_out(logits, x, weight.t());
      const ChunkLoss chunk_loss = LossOf(logits, chosen, *shard);
      loss += chunk_loss.loss;
      if (!differentiate) continue;
      LogitsToGradient(logits, chosen, shard->columns, chunk_loss.log_sum_exp, options->scale);
      at::Tensor part = gradient.narrow(0, begin, count);
      at::mm_out(part, logits, weight);
      AddWeightGradient(shard->weight, logits, x);
    }
    if (differentiate) {
      context->save_for_backward({at::zeros_like(hidden).index_copy_(0, trained, gradient)});
    }
    return loss.mul_(options->scale);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor gradient = context->get_saved_variables()[0];
    return {gradient * gradients[0].to(gradient.scalar_type()), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor ShardedCrossEntropy(const at::Tensor& hidden, const at::Tensor& labels, const Weight& weight,
                               Communicator& group, const CrossEntropyOptions& options) {
  const int64_t rows = weight.value.size(0), begin = group.rank() * rows;
  const Shard shard{weight, group, {begin, std::clamp<int64_t>(options.vocabulary - begin, 0, rows)}};
  return CrossEntropyFunction::apply(hidden, labels, &shard, &options);
}

}  // namespace trireme
