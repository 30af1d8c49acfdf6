#include "translate/verl_distillation.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/base/error.h"

namespace trireme {
namespace {

const std::string kDistillation = "distillation.", kDistillationLoss = "distillation.distillation_loss.";
const std::string kTeachers = "distillation.teacher_models.",
                  kOnlyTeacher = "distillation.teacher_models.teacher_model.";

// Named beside others, verl drops the entry teacher_model.
std::vector<const Setting*> TeachersOf(const Given& given) {
  std::vector<const Setting*> teachers;
  for (const Setting& one : given.settings) {
    const bool names = one.name.starts_with(kTeachers) && one.name.ends_with(".model_path") && !one.off();
    if (names && given.Find(one.name) == &one) teachers.push_back(&one);
  }
  if (teachers.size() > 1)
    std::erase_if(teachers, [](const Setting* one) { return one->name.starts_with(kOnlyTeacher); });
  return teachers;
}

// With use_policy_gradient a token's reward is log teacher - log student: its mean gradient is that of the divergence.
void SetVerlDivergence(const Given& given, Translation& result) {
  const std::string mode = given.Value(kDistillationLoss + "loss_mode", "k3");
  const bool by_reward = given.IsOn(kDistillationLoss + "use_policy_gradient");
  if (mode == "forward_kl_topk" && !by_reward) {
    result.Set("distillation.beta", std::string("0"), "distillation_loss.loss_mode " + mode);
    return result.Warn(
        "distillation_loss.topk " + given.Value(kDistillationLoss + "topk", "32"),
        "KL(teacher, student) over so many of the teacher's likeliest tokens, with bounds, there; over the "
        "whole vocabulary here");
  }
  if (!by_reward || (mode != "k1" && mode != "kl")) {
    return result.Refuse(
        Concat("distillation_loss.loss_mode ", mode, by_reward ? " with" : " without", " use_policy_gradient"),
        "stage gkd has divergences over the whole vocabulary, which k1 with use_policy_gradient and forward_kl_topk "
        "without it come near");
  }
  result.Set("distillation.beta", std::string("1"), "distillation_loss.loss_mode " + mode);
  result.Warn(
      "distillation_loss.loss_mode " + mode,
      "a sample of KL(student, teacher) for each token there, its value over the whole vocabulary here: the same "
      "gradient in the mean");
  for (const char* bound : {"loss_max_clamp", "log_prob_min_clamp"}) {
    const Setting* named = given.Find(kDistillationLoss + bound);
    if (named != nullptr && !named->off()) result.Warn(named->origin, "bounds a sample; the divergence has no bound");
  }
}

}  // namespace

bool VerlDistils(const Given& given) { return given.IsOn(kDistillation + "enabled"); }

void SetVerlDistillation(const Given& given, Translation& result) {
  if (given.IsOn(kDistillationLoss + "use_task_rewards", true)) {
    return result.Refuse(given.Find(kDistillation + "enabled")->origin,
                         "distillation with rewards; stage gkd learns from a teacher alone "
                         "(distillation_loss.use_task_rewards=False)");
  }
  const std::vector<const Setting*> teachers = TeachersOf(given);
  if (teachers.size() != 1) {
    return result.Refuse("distillation.teacher_models",
                         Concat(teachers.size(), " teachers; stage gkd has one, distillation.teacher"));
  }
  result.Set("distillation.teacher", teachers.front()->value(), teachers.front()->origin);
  result.Set("distillation.lambda", std::string("1"), "distillation.enabled: the student writes all answers");
  result.Set("distillation.temperature", result.value("rl.temperature", "1"), "actor_rollout_ref.rollout.temperature");
  result.Warn("data.train_files",
              "stage gkd reads records with an answer, although the student writes its own; give them a column such as "
              "response, which data.columns names");
  SetVerlDivergence(given, result);
  if (given.Number("actor_rollout_ref.rollout.n", 1) != 1)
    result.Refuse("actor_rollout_ref.rollout.n", "stage gkd writes one answer to a prompt");
  if (given.Value("actor_rollout_ref.actor.loss_agg_mode", "token-mean") != "token-mean")
    result.Refuse("loss_agg_mode", "stage gkd has the mean over the tokens of a step");
  if (result.value("rl.steps_per_generation", "1") != "1")
    result.Warn("data.train_batch_size", "answers of several steps are sampled at once there, anew for each step here");
}

}  // namespace trireme
