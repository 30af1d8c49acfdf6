// CompletionSampler: completions of prompts, drawn with the weights of a model as they are. The completions of a group
// share their prompt's keys and values; a completion that ends makes room for another. What is drawn depends on
// run.seed, the step, the prompt and the completion's number alone. Who rewards them is decided elsewhere.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "core/config.pb.h"
#include "generation/engine.h"
#include "generation/sampler.h"
#include "session/session.h"
#include "train/report/logged_step.h"
#include "train/rollouts/conversation_turns.h"
#include "train/rollouts/prompt_set.h"
#include "train/rollouts/rollout.h"

namespace trireme {

// How completions are drawn. Their longest length is rl.max_new_tokens.
struct CompletionDraw {
  Sampling sampling;
  int64_t group = 1;  // completions per prompt
};
CompletionDraw TrainingDraw(const Config& config);
// Of the same numbers in every evaluation, and none of training's. `config`: of the run.
CompletionDraw EvaluationDraw(const Config& config);

class CompletionSampler {
 public:
  // `config` and `job` outlive it. Opens rl.environment.
  CompletionSampler(const Config& config, std::shared_ptr<const PromptSet> prompts, Job& job, CompletionDraw draw);

  const PromptSet& prompts() const { return *prompts_; }
  // A group of completions for each of the prompts, groups side by side, with their texts; `first` is the number of the
  // first within the step, so that what is drawn again is drawn anew. Collective.
  std::vector<Rollout> Draw(Session& model, int64_t step, const std::vector<int64_t>& prompts, int64_t first = 0);
  // Of the last drawing.
  const MetricValues& metrics() const { return metrics_; }

 private:
  // A row that continues a completion, of which it may have no token yet.
  EngineRow RowOf(const Rollout& rollout, int64_t stream, int turn) const;
  // Adds a turn of the model to the rollouts at these indices. Collective.
  void DrawTurn(Engine& engine, std::vector<Rollout>& rollouts, const std::vector<size_t>& open, int64_t stream,
                int turn) const;
  // Takes a row's next token; whether it continues.
  bool Continue(Rollout& rollout, const NewToken& token) const;
  void Decode(std::vector<Rollout>& rollouts) const;

  const Config& config_;
  const std::shared_ptr<const PromptSet> prompts_;
  const CompletionDraw draw_;
  const std::set<int64_t> ends_;
  std::unique_ptr<ConversationTurns> turns_;  // with an environment
  MetricValues metrics_;
};

}  // namespace trireme
