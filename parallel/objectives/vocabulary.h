// Log-probabilities over a vocabulary that is never whole: over the ranks' shards of it, over chunks of tokens. What
// objectives share. Logits stay in the type of the computation; what is summed over them is fp32.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "parallel/objectives/objective.h"

namespace trireme {

// The trained ones of a micro batch's tokens.
struct TrainedTokens {
  TrainedTokens(const at::Tensor& hidden, const at::Tensor& all_labels);
  TrainedTokens(const at::Tensor& hidden, const PassInput& input);

  at::Tensor positions;  // [trained] among all tokens
  at::Tensor inputs;     // [trained, hidden]
  at::Tensor labels;     // [trained]

  int64_t size() const { return inputs.size(0); }
};

struct LogitChunk {
  int64_t begin = 0;  // among the trained tokens
  at::Tensor inputs;  // [tokens, hidden]
  at::Tensor labels;  // [tokens]
  at::Tensor logits;  // [tokens, vocabulary / tp], to be written over

  int64_t size() const { return inputs.size(0); }
};

struct ChunkStatistics {   // each [tokens] fp32, over all ranks of the vocabulary
  at::Tensor largest;      // logit
  at::Tensor log_sum_exp;
  at::Tensor picked;       // the label's logit
};

// Of logits in memory at a time, in the computation's type: on the host what its caches bear, on a GPU some
// thousand tokens, for each chunk reads and writes the whole sum of the weight's gradient.
inline constexpr int64_t kChunkBytes = int64_t{64} << 20, kGpuChunkBytes = int64_t{1280} << 20;

// Makes the logits of trained tokens chunk by chunk, all in one piece of memory: fresh pages cost as much as a
// pass over them.
class LogitChunks {
 public:
  // chunk_bytes: 0 for what the device wants.
  LogitChunks(const TrainedTokens& trained, const at::Tensor& weight, int64_t chunk_bytes = 0);

  int64_t count() const { return count_; }
  // With logits; those of other chunks are gone.
  LogitChunk Make(int64_t chunk) const;
  // The chunk that was made last and not written over, with the logits that are still there.
  LogitChunk Again(int64_t chunk) const { return At(chunk); }

 private:
  LogitChunk At(int64_t chunk) const;

  const TrainedTokens& trained_;
  const at::Tensor weight_;
  int64_t chunk_ = 1, count_ = 0;  // tokens per chunk, chunks
  at::Tensor room_;
};

// Collective over head.tensor.
ChunkStatistics StatisticsOf(const LogitChunk& chunk, const HeadStates& head);

// [trained] values at their tokens' positions, zeros elsewhere: [tokens].
at::Tensor AtTheirPositions(const at::Tensor& values, const TrainedTokens& trained, int64_t tokens);

}  // namespace trireme
