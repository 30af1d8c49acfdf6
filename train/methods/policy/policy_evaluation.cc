#include "train/methods/policy/policy_evaluation.h"

#include <numeric>
#include <utility>

#include "core/base/json.h"
#include "data/record_fields.h"
#include "stages/evaluation_check.h"
#include "train/rollouts/completion_scores.h"
#include "train/rollouts/rollout_file.h"

namespace trireme {
namespace {

std::unique_ptr<RewardSet> RewardsOf(Session& policy, const RolloutSource& source, const Config& config) {
  if (const std::shared_ptr<const RewardSet> shared = source.rewards()) {
    return std::make_unique<RewardSet>(*shared, config);
  }
  return std::make_unique<RewardSet>(policy, config);
}

}  // namespace

PolicyEvaluation::PolicyEvaluation(Session& policy, std::shared_ptr<const PromptSet> prompts,
                                   const RolloutSource& source)
    : policy_(policy),
      config_(EvaluationSampling(policy.config())),
      prompts_(std::move(prompts)),
      sources_(SourcesOf(*prompts_, config_)),
      all_(static_cast<size_t>(prompts_->size())),
      sampler_(config_, prompts_, policy.job(), EvaluationDraw(config_)),
      model_(source.model() ? source.model() : std::make_shared<SamplingModel>(policy)),
      rewards_(RewardsOf(policy, source, config_)) {
  std::iota(all_.begin(), all_.end(), int64_t{0});
}

std::vector<Rollout> PolicyEvaluation::Answers(int64_t step) {
  const int64_t group = config_.eval().completions();
  std::vector<Rollout> rollouts = sampler_.Draw(model_->UpToDate(), /*step=*/0, all_);
  for (size_t i = 0; i < rollouts.size(); ++i) {
    rollouts[i].step = rollouts[i].weights_step = step;
    rollouts[i].group = static_cast<int64_t>(i) / group;
  }
  rewards_->Judge(*prompts_, all_, group, rollouts);
  return rollouts;
}

// A rollout each, with what its prompt is judged by.
std::string PolicyEvaluation::LinesOf(const std::vector<Rollout>& rollouts) const {
  std::string lines;
  for (const Rollout& rollout : rollouts) {
    Json line = ToJson(rollout);
    const Json& record = prompts_->at(rollout.group).record;
    for (const char* column : {"data_source", "solution"}) {
      if (record.is_object() && Has(record, column)) line[column] = record.at(column);
    }
    lines += JsonLine(line) + "\n";
  }
  return lines;
}

Evaluation PolicyEvaluation::Run(int64_t step) {
  const std::vector<Rollout> rollouts = Answers(step);
  const RewardTable table = rewards_->TableOf(rollouts, config_.eval().completions());
  Evaluation evaluation{
      .metrics = CompletionScores({.table = table, .rollouts = rollouts, .sources = sources_}, config_),
      .judged_by = EvaluationMetric(config_)};
  if (policy_.job().rank() != 0) return evaluation;
  if (rewards_->failures() > 0) evaluation.metrics["reward_failures"] = static_cast<double>(rewards_->failures());
  evaluation.predictions = LinesOf(rollouts);
  return evaluation;
}

}  // namespace trireme
