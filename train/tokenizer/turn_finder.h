// FindTurns: where the assistant's turns stand in a rendered conversation, for any template: the conversation
// is rendered once more with a mark behind each message's content, and the marks show the places. Renders
// nothing itself.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/tokenizer/chat_template.h"

namespace trireme {

struct TurnSearch {
  const Json& messages;
  const std::string& text;     // the conversation, rendered
  const std::string& opening;  // the words that open an assistant's turn; perhaps empty
  const std::string& ending;   // the words that end it; perhaps empty
  bool generation_prompt = false;
  // Renders a conversation, with or without the words that ask for an answer.
  std::function<std::string(const Json&, bool)> render;
};

struct FoundTurns {
  std::vector<AssistantTurn> turns;
  std::vector<size_t> lost;  // messages whose content the template did not render
};

// An input error where a template hides where its answers are.
FoundTurns FindTurns(const TurnSearch& search);

// Messages whose content the template did not render, such as those of a role it does not know. Renders once.
std::vector<size_t> FindLost(const TurnSearch& search);

}  // namespace trireme
