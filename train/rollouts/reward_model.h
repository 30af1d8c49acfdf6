// RewardModel: a reward model as a reward: a second, frozen model on the policy's devices, under its layout, which
// scores each conversation at its last token, as `trireme score` does. Texts are tokenized by its own tokenizer and
// template; where the prompts are token ids it reads the policy's.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "data/rows.h"
#include "data/tokenise.h"
#include "session/session.h"
#include "stages/other_models.h"
#include "train/rollouts/rewards.h"

namespace trireme {

class RewardModel {
 public:
  // Takes its weights. `policy` outlives it. Collective.
  RewardModel(const Session& policy, const OtherModel& model);
  // In their order, the same on every rank. Collective.
  std::vector<double> Of(std::span<const Judged> completions);

 private:
  Row RowOf(const Judged& one) const;

  const SampleTokenizer tokenizer_;
  const std::unique_ptr<Session> model_;
  const double bias_;
};

}  // namespace trireme
