// TeacherStates: of a teacher's forward pass the hidden states that predict trained labels, and the weight of its head.
// From them a student's objective computes the teacher's logits when it needs them, a chunk at a time. Nothing is
// trained.
#pragma once

#include <ATen/ATen.h>

#include "parallel/objectives/objective.h"
#include "parallel/objectives/vocabulary.h"

namespace trireme {

// What a teacher computed of the micro batch, for distillation; undefined on ranks without the head.
struct TeacherFacts {
  at::Tensor hidden = {};       // [trained, its hidden size] of tokens whose labels are trained, after its final norm
  at::Tensor head_weight = {};  // [vocabulary / tp, its hidden size]
  double soft_cap = 0;          // of its logits; 0: none
};

class TeacherStates : public Objective {
 public:
  // copies_head: the weight is copied in the pass's first micro batch, because it leaves the device afterwards.
  explicit TeacherStates(bool copies_head) : copies_head_(copies_head) {}

  std::vector<std::string> SumNames(int64_t /*mtp_depths*/) const override { return {}; }
  std::vector<at::Tensor> Run(const HeadStates& head, PassContext& pass) const override {
    pass.output->trained_hidden = TrainedTokens(head.hidden.at(0), pass.input).inputs;
    if (!head_weight_.defined()) head_weight_ = copies_head_ ? head.weight.value.clone() : head.weight.value;
    pass.output->head_weight = head_weight_;
    pass.output->soft_cap = head.soft_cap;
    return {{}};
  }

 private:
  const bool copies_head_;
  mutable at::Tensor head_weight_;  // one copy for all micro batches
};

}  // namespace trireme
