// ConversationTurns: the turns of completions that an environment answers: rank 0 asks it, all ranks append what it
// says to the completions. Draws nothing itself.
#pragma once

#include <cstddef>
#include <vector>

#include "core/comm/job.h"
#include "train/rollouts/environment.h"

namespace trireme {

class ConversationTurns {
 public:
  // All outlive it.
  ConversationTurns(const Config& config, const PromptSet& prompts, Job& job);

  // New completions, without a token yet, of these prompts.
  void Begin(const std::vector<const PolicyPrompt*>& prompts);
  // After the model has written a turn of the rollouts at these indices: those that continue with another one, the
  // environment's answers at their ends. Collective.
  std::vector<size_t> Continue(std::vector<Rollout>& rollouts, const std::vector<size_t>& open);

 private:
  struct Conversation {
    const PolicyPrompt* prompt;
    Json messages;
    size_t turn_begin = 0;  // of the model's current turn in the completion
  };

  OpenTurn TurnOf(const Rollout& rollout, Conversation& conversation) const;
  Json AskOnce(const std::vector<OpenTurn>& turns);
  // Whether there is room for the answer and a token after it.
  bool Append(const std::vector<int64_t>& ids, Rollout& rollout) const;

  const Config& config_;
  const PromptSet& prompts_;
  Job& job_;
  Environment environment_;
  std::vector<Conversation> conversations_;  // by rollout
  int turns_ = 0;
};

}  // namespace trireme
