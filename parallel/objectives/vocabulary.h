// Log-probabilities over a vocabulary that is split over ranks and processed in chunks of tokens. Shared by
// the objectives. Logits stay in the compute dtype; sums over them are fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "parallel/objectives/objective.h"

namespace trireme {

// The trained tokens of a micro batch.
struct TrainedTokens {
  TrainedTokens(const at::Tensor& hidden, const at::Tensor& all_labels);
  TrainedTokens(const at::Tensor& hidden, const PassInput& input);

  at::Tensor positions;  // [trained] indices into all tokens
  at::Tensor inputs;     // [trained, hidden]
  at::Tensor labels;     // [trained]

  int64_t size() const { return inputs.size(0); }
};

struct LogitChunk {
  int64_t begin = 0;  // index into the trained tokens
  at::Tensor inputs;  // [tokens, hidden]
  at::Tensor labels;  // [tokens]
  at::Tensor logits;  // [tokens, vocabulary / tp], may be overwritten
  at::Tensor slope;   // of the soft cap, the same shape: what gradients of logits are multiplied by; undefined: none

  int64_t size() const { return inputs.size(0); }
};

struct ChunkStatistics {  // each [tokens] fp32, over all ranks of the vocabulary
  at::Tensor largest;     // logit
  at::Tensor log_sum_exp;
  at::Tensor picked;  // the label's logit
};

// Computes the logits of trained tokens chunk by chunk, all in one buffer: touching fresh pages costs as much
// as a pass over them.
class LogitChunks {
 public:
  // chunk_bytes: 0 for what the device wants.
  LogitChunks(const TrainedTokens& trained, const HeadStates& head, int64_t chunk_bytes = 0);
  // The same of another head's weight and soft cap.
  LogitChunks(const TrainedTokens& trained, const at::Tensor& weight, double soft_cap, int64_t chunk_bytes = 0);

  int64_t count() const { return count_; }
  // Computes the chunk's logits; those of other chunks are lost.
  LogitChunk Make(int64_t chunk) const;
  // The most recently made chunk, with the logits still in memory, unless overwritten.
  LogitChunk Again(int64_t chunk) const { return At(chunk); }

 private:
  LogitChunk At(int64_t chunk) const;

  const TrainedTokens& trained_;
  const at::Tensor weight_;
  const double soft_cap_;
  int64_t chunk_ = 1, count_ = 0;  // tokens per chunk, chunks
  at::Tensor room_, slope_;
};

// cap · tanh(x / cap) of logits, in place.
void SoftCapLogits(const at::Tensor& logits, double cap);

// Collective over head.tensor.
ChunkStatistics StatisticsOf(const LogitChunk& chunk, const HeadStates& head);

// Of each token's logits over the vocabulary: [tokens] fp32. Collective over head.tensor.
at::Tensor MeanLogits(const LogitChunk& chunk, const HeadStates& head);

// Of each token's distribution over the vocabulary, whose logits are in the chunk: [tokens] fp32. Collective over
// head.tensor.
at::Tensor EntropiesOf(const LogitChunk& chunk, const at::Tensor& log_sum_exp, const HeadStates& head);

// [trained] values scattered to their tokens' positions, zeros elsewhere: [tokens].
at::Tensor AtTheirPositions(const at::Tensor& values, const TrainedTokens& trained, int64_t tokens);

}  // namespace trireme
