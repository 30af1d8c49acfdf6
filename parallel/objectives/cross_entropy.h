// CrossEntropy: the mean loss of the trained tokens, in one product over the vocabulary with its gradient; with
// multi-token prediction also that of each further token, which counts with its weight in the gradient alone.
// Sums: `loss`, `mtp_loss/1` …, and where asked for `correct`.
#pragma once

#include "parallel/objectives/objective.h"

namespace trireme {

struct CrossEntropyOptions {
  // Counts trained tokens whose label has the largest logit; of equal ones the smallest token id, as in argmax over
  // whole logits. For evaluations: such a pass is not differentiated.
  bool count_correct = false;
  int64_t chunk_bytes = 0;  // of logits in memory at a time; 0: as all objectives
};

class CrossEntropy : public Objective {
 public:
  explicit CrossEntropy(const CrossEntropyOptions& options = {}) : options_(options) {}
  std::vector<std::string> SumNames(int64_t mtp_depths) const override;
  std::vector<at::Tensor> Run(const HeadStates& head, PassContext& pass) const override;

 private:
  struct Part;  // one depth's
  at::Tensor RunDepth(const HeadStates& head, const Part& part, const PassContext& pass, PassOutput& output) const;

  const CrossEntropyOptions options_;
};

// The name of the sum of a depth's losses, from 1 on.
std::string MtpLossName(int64_t depth);

}  // namespace trireme
