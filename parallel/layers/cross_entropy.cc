#include "parallel/layers/cross_entropy.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

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

// What is trained of a batch.
struct Trained {
  at::Tensor places;  // [trained tokens] among all tokens
  at::Tensor inputs;  // [trained tokens, size]
  at::Tensor labels;  // [trained tokens]

  Trained(const at::Tensor& hidden, const at::Tensor& all_labels)
      : places(all_labels.ne(kNotTrained).nonzero().squeeze(1)),
        inputs(hidden.index_select(0, places)),
        labels(all_labels.index_select(0, places)) {}
};

struct ChunkLoss {
  at::Tensor largest;      // [tokens] logit, over all ranks
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
  return {largest, log_sum_exp, (log_sum_exp - sums[1]).sum()};
}

// How many tokens have their label's logit as the first of the largest ones.
at::Tensor HitsOf(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& largest,
                  const Shard& shard) {
  constexpr double kNone = -std::numeric_limits<float>::infinity();
  // Token ids, negative so that the largest is the first; fp32 counts that far.
  at::Tensor first = at::full_like(largest, kNone);
  if (shard.columns.count > 0) {
    const at::Tensor columns = logits.narrow(1, 0, shard.columns.count);
    const at::Tensor index = columns.argmax(1, /*keepdim=*/true);
    const at::Tensor value = columns.gather(1, index).squeeze(1).to(at::kFloat);
    first = (index.squeeze(1) + shard.columns.first).to(at::kFloat).neg_();
    first.masked_fill_(largest.gt(value), kNone);
  }
  AllReduce(first, shard.group, ReduceOp::kMax);
  return first.neg().eq(labels.to(at::kFloat)).sum().to(at::kFloat);
}

// Equal chunks, each of at least one token and at most as many bytes of logits as asked for.
int64_t TokensAChunk(int64_t tokens, const at::Tensor& weight, const CrossEntropyOptions& options) {
  const int64_t token_bytes = std::max<int64_t>(weight.size(0) * weight.element_size(), 1);
  const int64_t most = std::max<int64_t>(options.chunk_bytes / token_bytes, 1);
  const int64_t chunks = std::max<int64_t>((tokens + most - 1) / most, 1);
  return std::max<int64_t>((tokens + chunks - 1) / chunks, 1);
}

// Calls work(place, inputs, labels, logits), each of one chunk; it may write into the logits.
template <typename Work>
void ForChunks(const Trained& trained, const at::Tensor& weight, const CrossEntropyOptions& options,
               Work work) {
  const int64_t tokens = trained.inputs.size(0), chunk = TokensAChunk(tokens, weight, options);
  // One piece of memory for all chunks: fresh pages cost as much as a pass over them.
  const at::Tensor room = at::empty({std::min(chunk, tokens), weight.size(0)}, weight.options());
  for (int64_t begin = 0; begin < tokens; begin += chunk) {
    const int64_t count = std::min(chunk, tokens - begin);
    const at::Tensor x = trained.inputs.narrow(0, begin, count);
    at::Tensor logits = room.narrow(0, 0, count);
    at::mm_out(logits, x, weight.t());
    work(begin, x, trained.labels.narrow(0, begin, count), logits);
  }
}

struct CrossEntropyFunction : torch::autograd::Function<CrossEntropyFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& labels,
                            const Shard* shard, const CrossEntropyOptions* options) {
    const bool differentiate = hidden.requires_grad();
    const Trained trained(hidden, labels);
    const at::Tensor& weight = shard->weight.value;
    at::Tensor gradient = differentiate ? at::empty_like(trained.inputs) : at::Tensor();
    at::Tensor loss = at::zeros({}, hidden.options().dtype(at::kFloat));
    ForChunks(trained, weight, *options,
              [&](int64_t begin, const at::Tensor& x, const at::Tensor& chosen, const at::Tensor& logits) {
                const ChunkLoss chunk_loss = LossOf(logits, chosen, *shard);
                loss += chunk_loss.loss;
                if (!differentiate) return;
                LogitsToGradient(logits, chosen, shard->columns, chunk_loss.log_sum_exp,
                                 options->scale * options->gradient_weight);
                at::Tensor part = gradient.narrow(0, begin, x.size(0));
                at::mm_out(part, logits, weight);
                AddWeightGradient(shard->weight, logits, x);
              });
    if (differentiate) {
      context->save_for_backward({at::zeros_like(hidden).index_copy_(0, trained.places, gradient)});
    }
    return loss.mul_(options->scale);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor gradient = context->get_saved_variables()[0];
    return {gradient * gradients[0].to(gradient.scalar_type()), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

Shard ShardOf(const Weight& weight, Communicator& group, const CrossEntropyOptions& options) {
  const int64_t rows = weight.value.size(0), begin = group.rank() * rows;
  return {weight, group, {begin, std::clamp<int64_t>(options.vocabulary - begin, 0, rows)}};
}

}  // namespace

at::Tensor ShardedCrossEntropy(const at::Tensor& hidden, const at::Tensor& labels, const Weight& weight,
                               Communicator& group, const CrossEntropyOptions& options) {
  const Shard shard = ShardOf(weight, group, options);
  return CrossEntropyFunction::apply(hidden, labels, &shard, &options);
}

at::Tensor LossAndHits(const at::Tensor& hidden, const at::Tensor& labels, const Weight& weight,
                       Communicator& group, const CrossEntropyOptions& options) {
  const Shard shard = ShardOf(weight, group, options);
  at::Tensor loss = at::zeros({}, hidden.options().dtype(at::kFloat)), hits = at::zeros_like(loss);
  ForChunks(Trained(hidden, labels), weight.value, options,
            [&](int64_t, const at::Tensor&, const at::Tensor& chosen, const at::Tensor& logits) {
              const ChunkLoss chunk_loss = LossOf(logits, chosen, shard);
              loss += chunk_loss.loss;
              hits += HitsOf(logits, chosen, chunk_loss.largest, shard);
            });
  return at::stack({loss.mul_(options.scale), hits});
}

}  // namespace trireme
