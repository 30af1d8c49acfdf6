// FindTurns: where the assistant's turns are in a rendered conversation, for any template: the conversation
// is rendered again with a mark after each message's content, and the marks show the positions. Renders
// nothing itself.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "text/chat_template.h"

namespace trireme {

struct TurnSearch {
  const Json& messages;
  const std::string& text;     // the conversation, rendered
  const std::string& opening;  // the text that opens an assistant's turn; may be empty
  const std::string& ending;   // the text that ends it; may be empty
  bool generation_prompt = false;
  // Renders a conversation, with or without the generation prompt.
  std::function<std::string(const Json&, bool)> render;
};

struct FoundTurns {
  std::vector<AssistantTurn> turns;
  std::vector<size_t> lost;  // messages whose content the template did not render
};

// Throws an input error if a template hides where its answers are.
FoundTurns FindTurns(const TurnSearch& search);

// Messages whose content the template did not render, such as those of an unknown role. Renders once.
std::vector<size_t> FindLost(const TurnSearch& search);

}  // namespace trireme
