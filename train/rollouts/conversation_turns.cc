#include "train/rollouts/conversation_turns.h"

#include <limits>
#include <string>

#include "core/base/error.h"

namespace trireme {

ConversationTurns::ConversationTurns(const Config& config, const PromptSet& prompts, Job& job)
    : config_(config), prompts_(prompts), job_(job), environment_(config, prompts) {}

void ConversationTurns::Begin(const std::vector<const PolicyPrompt*>& prompts) {
  turns_ = 0;
  conversations_.clear();
  for (const PolicyPrompt* prompt : prompts) conversations_.push_back({.prompt = prompt, .messages = prompt->asked});
}

OpenTurn ConversationTurns::TurnOf(const Rollout& rollout, Conversation& conversation) const {
  const auto begin = rollout.completion_ids.begin() + static_cast<int64_t>(conversation.turn_begin);
  const std::vector<int32_t> ids(begin, rollout.completion_ids.end());
  conversation.messages.push_back(
      {{"role", "assistant"}, {"content", prompts_.tokenizer()->Decode(ids, /*skip_special=*/true)}});
  return {.prompt = conversation.prompt,
          .rollout = &rollout,
          .messages = conversation.messages,
          .written = prompts_.tokenizer()->Decode(ids)};
}

// A failure on rank 0 ends the run there; the others end with it.
Json ConversationTurns::AskOnce(const std::vector<OpenTurn>& turns) {
  const Json mine = job_.rank() == 0 ? environment_.Ask(turns) : Json();
  return ParseJson(job_.GatherStrings(job_.rank() == 0 ? JsonLine(mine) : "").at(0), "the environment");
}

bool ConversationTurns::Append(const std::vector<int64_t>& ids, Rollout& rollout) const {
  if (std::ssize(rollout.completion_ids) + std::ssize(ids) >= config_.rl().max_new_tokens()) return false;
  rollout.written.resize(rollout.completion_ids.size(), true);
  rollout.completion_ids.insert(rollout.completion_ids.end(), ids.begin(), ids.end());
  rollout.written.resize(rollout.completion_ids.size(), false);
  rollout.log_probs.resize(rollout.completion_ids.size(), std::numeric_limits<float>::quiet_NaN());
  return true;
}

std::vector<size_t> ConversationTurns::Continue(std::vector<Rollout>& rollouts, const std::vector<size_t>& open) {
  std::vector<size_t> asked, continued;
  std::vector<OpenTurn> turns;
  ++turns_;
  for (const size_t i : open) {
    if (!rollouts[i].written.empty()) rollouts[i].written.resize(rollouts[i].completion_ids.size(), true);
    if (rollouts[i].truncated || turns_ >= config_.rl().max_turns()) continue;
    asked.push_back(i);
    turns.push_back(TurnOf(rollouts[i], conversations_[i]));
  }
  if (turns.empty()) return {};
  const Json answers = AskOnce(turns);
  for (size_t i = 0; i < asked.size(); ++i) {
    if (answers.at(i).is_null()) continue;
    Rollout& rollout = rollouts[asked[i]];
    rollout.truncated = !Append(environment_.TokensOf(turns[i], answers.at(i)), rollout);
    if (rollout.truncated) continue;
    Conversation& conversation = conversations_[asked[i]];
    conversation.messages.push_back(answers.at(i));
    conversation.turn_begin = rollout.completion_ids.size();
    continued.push_back(asked[i]);
  }
  return continued;
}

}  // namespace trireme
