// Teacher: what a student's objective needs of its teacher, for the micro batches of an update: the teacher's hidden
// states and its head's weight, on the student's ranks with the head. Runs the teacher forward, under the student's
// layout or its own (distillation.layout), in which case states and weight are brought to where the student needs them.
#pragma once

#include <vector>

#include "data/rows.h"
#include "parallel/pass/pass_input.h"
#include "train/step/reference.h"

namespace trireme {

class Teacher {
 public:
  // Both outlive it.
  Teacher(Session& student, Reference& model);

  // Of the rows of an update, and the student's micro batches of them on this rank. Collective.
  void Ask(const RowSource& rows, std::vector<PassInput>& inputs);

 private:
  using Outputs = std::vector<PassOutput>;  // by micro batch
  Outputs Forward(Session& model, const std::vector<PassInput>& inputs) const;
  void AskElsewhere(Session& model, const RowSource& rows, std::vector<PassInput>& inputs);
  // On the student's ranks with the head, of the rows of this rank: [trained, hidden] each. Collective.
  std::vector<at::Tensor> BringStates(Session& model, const RowSource& rows, const std::vector<PassInput>& theirs,
                                      const Outputs& outputs) const;
  void BringHead(Session& model, const Outputs& outputs);

  Session& student_;
  Reference& model_;
  const bool elsewhere_;    // under a layout of its own
  const bool head_leaves_;  // after a pass the teacher's weights are no longer on the device, or not whole
  // Under a layout of its own: the rows of its head's weight that this rank has of the student's; undefined before the
  // first pass, and on ranks without the head.
  at::Tensor head_weight_;
  bool has_head_ = false;  // it was brought
};

}  // namespace trireme
