#include "train/methods/distillation/distillation.h"

#include "train/methods/distillation/distillation_rollouts.h"
#include "train/methods/distillation/taught_prompts.h"
#include "train/methods/distillation/teacher.h"
#include "train/methods/policy/policy_steps.h"

namespace trireme {
namespace {

std::shared_ptr<RolloutSource> OpenAnswers(const Prompts& prompts, Trainer& trainer, PolicyPass& pass) {
  FollowReference(pass, trainer);
  return std::make_shared<DistillationRollouts>(trainer.session(), *pass.reference(), prompts.sampled);
}

}  // namespace

std::unique_ptr<Method> MakeDistillationMethod(const Config& config) {
  return std::make_unique<PolicySteps>(config, PolicyParts{.open = OpenTaught, .source = OpenAnswers});
}

void FollowReference(PolicyPass& pass, Trainer& trainer) {
  const auto teacher = std::make_shared<Teacher>(trainer.session(), *pass.reference());
  pass.FollowTeacher([teacher](const RowSource& rows, std::vector<PassInput>& inputs) { teacher->Ask(rows, inputs); });
}

}  // namespace trireme
