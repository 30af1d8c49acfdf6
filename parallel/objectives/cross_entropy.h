// CrossEntropy: the mean loss of the trained tokens, with its gradient in one pass over the logits; with
// multi-token prediction also the loss of each depth, which is weighted in the gradient only. Sums: `loss`,
// `mtp_loss/1` …, and `correct` if requested.
#pragma once

#include "parallel/objectives/gradient_chunks.h"
#include "parallel/objectives/objective.h"

namespace trireme {

struct CrossEntropyOptions {
  // Counts trained tokens whose label has the largest logit; on ties the smallest token id wins, as in argmax
  // over all logits. For evaluation: such a pass is not differentiated.
  bool count_correct = false;
  int64_t chunk_bytes = 0;  // of logits in memory at a time; 0: the default of all objectives
  LogitPenalties penalties = {};
  // A token's loss is multiplied by its probability, which is taken for a constant: dynamic fine-tuning (DFT). Without
  // penalties.
  bool by_probability = false;
};

class CrossEntropy : public Objective {
 public:
  explicit CrossEntropy(const CrossEntropyOptions& options = {}) : options_(options) {}
  std::vector<std::string> SumNames(int64_t mtp_depths) const override;
  std::vector<at::Tensor> Run(const HeadStates& head, PassContext& pass) const override;

 private:
  struct Part;  // one prediction depth
  at::Tensor LossesOf(const LogitChunk& chunk, const ChunkStatistics& statistics, const HeadStates& head) const;
  at::Tensor RunDepth(const HeadStates& head, const Part& part, const PassContext& pass, PassOutput& output) const;

  const CrossEntropyOptions options_;
};

// The name of the sum of a depth's losses, counted from 1.
std::string MtpLossName(int64_t depth);

}  // namespace trireme
