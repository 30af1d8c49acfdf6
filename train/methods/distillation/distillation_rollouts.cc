#include "train/methods/distillation/distillation_rollouts.h"

#include <utility>

#include "core/base/random.h"

namespace trireme {

DistillationRollouts::DistillationRollouts(Session& student, Reference& teacher,
                                           std::shared_ptr<const PromptSet> prompts)
    : student_(student),
      teacher_(teacher),
      config_(student.config()),
      sampler_(config_, std::move(prompts), student.job(), TrainingDraw(config_)) {}

std::vector<Rollout> DistillationRollouts::Given(const std::vector<int64_t>& prompts) const {
  std::vector<Rollout> rollouts;
  for (const int64_t index : prompts) {
    const PolicyPrompt& prompt = sampler_.prompts().at(index);
    rollouts.push_back(
        {.prompt = prompt.text, .prompt_ids = prompt.ids, .images = prompt.images, .completion_ids = prompt.answer});
  }
  return rollouts;
}

std::vector<Rollout> DistillationRollouts::Take(int64_t step, const std::vector<int64_t>& prompts) {
  const DistillationConfig& distillation = config_.distillation();
  const RandomStream writers(static_cast<uint64_t>(config_.run().seed()), "distillation");
  const bool own = writers.Uniform(static_cast<uint64_t>(step)) < distillation.lambda();
  metrics_ = {{"on_policy", own ? 1.0 : 0.0}};
  sampled_ = own || distillation.seq_kd();
  if (!sampled_) return Given(prompts);
  std::vector<Rollout> rollouts;
  if (own) {
    rollouts = sampler_.Draw(student_, step, prompts);
  } else {
    teacher_.Use([&](Session& model, bool /*adapters*/) { rollouts = sampler_.Draw(model, step, prompts); });
  }
  metrics_.insert(sampler_.metrics().begin(), sampler_.metrics().end());
  return rollouts;
}

}  // namespace trireme
