#include "train/methods/policy/value_model.h"

#include "checkpoint/store_reader.h"
#include "parallel/objectives/objectives.h"
#include "parallel/pass/pass_batch.h"
#include "stages/objective_options.h"
#include "stages/other_models.h"
#include "train/states/resume.h"

namespace trireme {

ValueModel::ValueModel(Session& policy, const std::optional<std::filesystem::path>& checkpoint)
    : what_(OtherModelOf(policy.config(), ModelRole::kValue).value()),
      session_(policy.OpenOther(what_)),
      trainer_(*session_, "value") {
  if (!checkpoint) {
    session_->TakeWeights();
    return;
  }
  StoreReader reader(*checkpoint / what_.saved_as);
  PrepareStates(reader, trainer_, policy.job());
  LoadStates(reader, trainer_, policy.job());
}

std::vector<at::Tensor> ValueModel::ValuesOf(const std::vector<PassInput>& inputs) {
  const std::unique_ptr<Objective> objective = MakeObjective("value", ObjectiveOptionsOf(session_->config()));
  PassBatch batch(inputs, {.objective = objective.get(), .differentiate = false, .wants = {.scores = true}});
  session_->RunForward(batch);
  std::vector<at::Tensor> values;
  for (const PassOutput& output : batch.result().outputs) values.push_back(output.scores);
  return values;
}

double ValueModel::Pass(const std::vector<PassInput>& inputs, BatchTotals totals, std::span<const Rollout> rollouts) {
  totals.trained = 0;  // states
  for (const Rollout& rollout : rollouts) totals.trained += std::ssize(rollout.tokens.returns);
  PassBatch batch(inputs, trainer_.OptionsOf(totals));
  return trainer_.Pass(batch);
}

}  // namespace trireme
