// NextTokenLogits: for generation, the full logits of a few tokens. Nothing is trained.
#pragma once

#include "parallel/objectives/objective.h"

namespace trireme {

class NextTokenLogits : public Objective {
 public:
  // wanted: [any] int64, indices into the tokens of the only micro batch.
  explicit NextTokenLogits(at::Tensor wanted) : wanted_(std::move(wanted)) {}
  std::vector<std::string> SumNames(int64_t /*mtp_depths*/) const override { return {}; }
  at::Tensor Select(const PassContext& /*pass*/) const override { return wanted_; }
  // pass.output->logits: [wanted, vocabulary], the same on every rank of head.tensor.
  std::vector<at::Tensor> Run(const HeadStates& head, PassContext& pass) const override;

 private:
  const at::Tensor wanted_;
};

}  // namespace trireme
