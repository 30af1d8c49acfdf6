#include "train/teacher.h"

#include "parallel/objectives/teacher_states.h"
#include "parallel/pass/pass_batch.h"

namespace trireme {

void AskTeacher(Reference& teacher, bool copies_head, std::vector<PassInput>& inputs) {
  const TeacherStates objective(copies_head);
  teacher.Use([&](Session& model, bool adapters) {
    PassBatch batch(inputs, {.objective = &objective, .differentiate = false, .adapters = adapters});
    model.RunForward(batch);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const PassOutput& output = batch.result().outputs[i];
      if (!output.trained_hidden.defined()) continue;
      inputs[i].teacher = {.hidden = output.trained_hidden, .head_weight = output.head_weight, .soft_cap = output.soft_cap};
    }
  });
}

}  // namespace trireme
