#include "train/plan/teacher_graph.h"

#include "checkpoint/hf_directory.h"
#include "core/base/error.h"
#include "session/model_graph.h"

namespace trireme {

LayerGraph TeacherGraph(const Config& config) {
  Config taught;
  taught.mutable_model()->set_path(config.distillation().teacher());
  taught.mutable_model()->set_dtype(config.model().dtype());
  taught.mutable_tuning()->set_kind(TUNING_FULL);
  return ReadGraph(taught);
}

void CheckTeacher(const Config& config, int64_t vocabulary) {
  if (config.distillation().teacher().empty()) return;
  const int64_t theirs = VocabularyOf(TeacherGraph(config));
  if (theirs != vocabulary) {
    throw InputError("distillation.teacher: ", config.distillation().teacher(), " has a vocabulary of ", theirs,
                     " tokens, and the student ", config.model().path(), " one of ", vocabulary,
                     "; their distributions are compared token by token: use a teacher with the student's tokenizer");
  }
  const HfDirectory weights(config.distillation().teacher());
}

}  // namespace trireme
