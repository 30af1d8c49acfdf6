// Environment: what answers the model's turns in completions of several turns: a program that reads a JSON object per
// completion and answers with null, where it ends, or with a message. How a message becomes tokens after those of the
// model is here, too. Which completions continue, and when, is decided elsewhere. No torch.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/config.pb.h"
#include "text/chat_template.h"
#include "train/programs/line_program.h"
#include "train/rollouts/prompt_set.h"
#include "train/rollouts/rollout.h"

namespace trireme {

// A completion in progress: the messages of its conversation, the model's last turn among them, and that turn's tokens.
struct OpenTurn {
  const PolicyPrompt* prompt;
  const Rollout* rollout;
  Json messages;
  std::string written;  // the last turn as text, with its end token
};

class Environment {
 public:
  // Refuses an rl.environment that is no program, and prompts that are no messages. `prompts` outlives it.
  Environment(const Config& config, const PromptSet& prompts);

  // Of each, in their order: a message, or null for the end. Dying or answering with something else, it ends the run.
  Json Ask(std::span<const OpenTurn> turns);
  // The tokens between the model's last turn and its next one: the message as the chat template writes it.
  std::vector<int64_t> TokensOf(const OpenTurn& turn, const Json& message) const;

 private:
  const PromptSet& prompts_;
  const ChatTemplate chat_;
  LineProgram program_;
};

}  // namespace trireme
