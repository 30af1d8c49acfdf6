// A chat of `trireme generate`: a line from the user, an answer as it is generated, and so on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/json.h"
#include "core/comm/job.h"
#include "generation/generator.h"
#include "generation/text/completion.h"
#include "launch/generate_images.h"
#include "serve/tool_calls.h"
#include "text/chat_template.h"

namespace trireme {

struct ChatSettings {
  const Tokenizer& tokenizer;
  const ChatTemplate& chat;
  const CompletionRules& rules;
  GenerationOptions options;
  int64_t most = 256;                // new tokens per answer
  std::optional<int64_t> positions;  // that the model supports
  std::string system;                // first message; empty: none
  Json variables = Json::object();   // for the chat template
  Json tools = nullptr;              // that the model may call; null: none
  ToolForm tool_form = nullptr;      // of its calls
  const GenerateImages& images;
  std::vector<std::string> first_images = {};  // of the first message
};

// Collective. Lines are rank 0's standard input, answers its standard output. /tool TEXT answers a call of the model,
// /image FILE adds an image to the next line. Ends at /quit and at the end of input.
void Chat(Generator& generator, const ChatSettings& settings, Job& job);

// Whether rank 0's standard input is a terminal, and if not, its whole content: the same on every rank.
struct StandardInput {
  bool terminal = false;
  std::string text = {};
};
StandardInput ReadStandardInput(Job& job);

}  // namespace trireme
