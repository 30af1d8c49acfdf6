// ChatTemplate: a conversation as the text that a model expects, as Hugging Face's
// apply_chat_template renders it, and where in that text the assistant's turns are. Knows no tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "text/tokenizer.h"

struct TriremeTemplate;

namespace trireme {

struct RenderOptions {
  bool add_generation_prompt = false;  // end with the opening of the assistant's turn
  Json tools = nullptr;                // a list of functions, or null
  Json variables = Json::object();     // other template variables, such as enable_thinking
};

// What the assistant wrote: everything after the opening of its turn, including the end of the turn.
struct AssistantTurn {
  size_t message = 0;         // its index in the conversation
  size_t begin = 0, end = 0;  // bytes of the text
};

struct RenderedChat {
  std::string text;
  std::vector<AssistantTurn> turns;  // in the order of the text
  std::vector<size_t> lost = {};     // messages whose content is not in the text
};

// The error for a conversation whose messages are not all in its text; empty if none is lost.
std::string LostText(const Json& messages, const std::vector<size_t>& lost);

// The name of a tool that a text does not have, although its conversation does; empty: there is none.
std::string LostTool(const Json& tools, const std::string& text);

class ChatTemplate {
 public:
  // `name` stands for the template in errors.
  // values: of its variables, where a rendering has none of its own.
  ChatTemplate(const std::string& source, const Json& special_tokens, const std::string& name,
               Json values = Json::object());
  // The text of a directory's template: chat_template.jinja, or that of chat_template.json or tokenizer_config.json. A
  // directory without one is an input error.
  static std::string SourceOf(const std::string& directory);
  // The template of a tokenizer's directory.
  static ChatTemplate Of(const Tokenizer& tokenizer);
  // `choice`: empty for the tokenizer's own, otherwise a file.
  static ChatTemplate Of(const Tokenizer& tokenizer, const std::string& choice, Json values = Json::object());
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;

  std::string Render(const Json& messages, const RenderOptions& options = {}) const;
  RenderedChat RenderTurns(const Json& messages, const RenderOptions& options = {}) const;
  // As Render; an input error if the content of a message is not in the text.
  std::string RenderAll(const Json& messages, const RenderOptions& options = {}) const;

  const std::string& source() const { return source_; }
  // The text that ends an assistant's turn; empty if the template hides it.
  const std::string& ending() const { return ending_; }

 private:
  void LearnTurn();
  std::vector<AssistantTurn> MarkedTurns(const Json& messages, const RenderOptions& options) const;

  std::string source_;
  std::string name_;
  Json values_;
  TriremeTemplate* handle_ = nullptr;
  bool marks_generation_ = false;  // the template itself marks what the assistant writes
  std::string opening_;            // the text that opens an assistant's turn
  std::string ending_;             // the text that ends it
};

}  // namespace trireme
