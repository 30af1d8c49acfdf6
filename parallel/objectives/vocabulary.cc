#include "parallel/objectives/vocabulary.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "parallel/graph/layer_block.h"
#include "parallel/graph/specs.h"
#include "parallel/tensor/collectives.h"

namespace trireme {
namespace {

// Equal chunks, each of at least one token and at most `chunk_bytes` of logits.
int64_t TokensPerChunk(int64_t tokens, const at::Tensor& weight, int64_t chunk_bytes) {
  const int64_t token_bytes = std::max<int64_t>(weight.size(0) * weight.element_size(), 1);
  const int64_t usual = weight.is_cuda() ? kGpuLogitBytes : kLogitBytes;
  const int64_t most = std::max<int64_t>((chunk_bytes > 0 ? chunk_bytes : usual) / token_bytes, 1);
  const int64_t chunks = std::max<int64_t>((tokens + most - 1) / most, 1);
  return std::max<int64_t>((tokens + chunks - 1) / chunks, 1);
}

}  // namespace

TrainedTokens::TrainedTokens(const at::Tensor& hidden, const at::Tensor& all_labels)
    : positions(all_labels.ne(kNotTrained).nonzero().squeeze(1)),
      inputs(hidden.index_select(0, positions)),
      labels(all_labels.index_select(0, positions)) {}

TrainedTokens::TrainedTokens(const at::Tensor& hidden, const PassInput& input)
    : positions(input.trained.defined() ? input.trained : input.labels.ne(kNotTrained).nonzero().squeeze(1)),
      inputs(hidden.index_select(0, positions)),
      labels(input.labels.index_select(0, positions)) {}

LogitChunks::LogitChunks(const TrainedTokens& trained, const HeadStates& head, int64_t chunk_bytes)
    : LogitChunks(trained, head.weight.value, head.soft_cap, chunk_bytes) {}

LogitChunks::LogitChunks(const TrainedTokens& trained, const at::Tensor& weight, double soft_cap, int64_t chunk_bytes)
    : trained_(trained),
      weight_(weight),
      soft_cap_(soft_cap),
      chunk_(TokensPerChunk(trained.size(), weight_, chunk_bytes)) {
  count_ = (trained.size() + chunk_ - 1) / chunk_;
  room_ = at::empty({std::min(chunk_, trained.size()), weight_.size(0)}, weight_.options());
  if (soft_cap_ > 0) slope_ = at::empty_like(room_);
}

LogitChunk LogitChunks::At(int64_t chunk) const {
  const int64_t begin = chunk * chunk_, size = std::min(chunk_, trained_.size() - begin);
  return {.begin = begin,
          .inputs = trained_.inputs.narrow(0, begin, size),
          .labels = trained_.labels.narrow(0, begin, size),
          .logits = room_.narrow(0, 0, size),
          .slope = slope_.defined() ? slope_.narrow(0, 0, size) : at::Tensor()};
}

LogitChunk LogitChunks::Make(int64_t chunk) const {
  LogitChunk made = At(chunk);
  at::mm_out(made.logits, made.inputs, weight_.t());
  if (soft_cap_ > 0) {
    SoftCapLogits(made.logits, soft_cap_);
    at::square_out(made.slope, made.logits);
    made.slope.mul_(-1 / (soft_cap_ * soft_cap_)).add_(1);
  }
  return made;
}

void SoftCapLogits(const at::Tensor& logits, double cap) {
  at::Tensor in_place = logits;
  in_place.div_(cap).tanh_().mul_(cap);
}

ChunkStatistics StatisticsOf(const LogitChunk& chunk, const HeadStates& head) {
  const LogitStatistics local = StatisticsOfLogits(chunk.logits, chunk.labels, head.columns);
  const at::Tensor largest = local.largest.clone();
  AllReduce(largest, head.tensor, ReduceOp::kMax);
  // Both sums travel in one message: exponentials, and the logit of the label.
  const at::Tensor sums = at::stack({local.sum * (local.largest - largest).exp(), local.picked});
  AllReduce(sums, head.tensor);
  return {largest, largest + sums[0].log(), sums[1]};
}

at::Tensor MeanLogits(const LogitChunk& chunk, const HeadStates& head) {
  const at::Tensor sums = chunk.logits.narrow(1, 0, head.columns.count).sum(1, /*keepdim=*/false, at::kFloat);
  AllReduce(sums, head.tensor);
  return sums / static_cast<double>(head.vocabulary);
}

at::Tensor EntropiesOf(const LogitChunk& chunk, const at::Tensor& log_sum_exp, const HeadStates& head) {
  const int64_t block = chunk.logits.is_cpu() ? 32 : 1024;  // tokens: their logits become fp32
  const at::Tensor sums = at::zeros_like(log_sum_exp);
  for (int64_t begin = 0; begin < chunk.size(); begin += block) {
    const int64_t size = std::min(block, chunk.size() - begin);
    const at::Tensor logits = chunk.logits.narrow(0, begin, size).narrow(1, 0, head.columns.count).to(at::kFloat);
    const at::Tensor log_probs = logits - log_sum_exp.narrow(0, begin, size).unsqueeze(1);
    sums.narrow(0, begin, size).sub_((log_probs.exp() * log_probs).sum(1));
  }
  AllReduce(sums, head.tensor);
  return sums;
}

at::Tensor AtTheirPositions(const at::Tensor& values, const TrainedTokens& trained, int64_t tokens) {
  return at::zeros({tokens}, values.options()).index_copy_(0, trained.positions, values);
}

}  // namespace trireme
