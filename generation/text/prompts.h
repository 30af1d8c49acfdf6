// Prompts for a model: text or conversations as tokens, and which tokens end its answers. No
// torch.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "data/samples.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace trireme {

using Tokens = std::vector<int64_t>;

// The tokens of a text with the special tokens that the tokenizer adds, such as bos.
Tokens TextPrompt(const Tokenizer& tokenizer, const std::string& text);
// A conversation up to the assistant's turn.
Tokens ChatPrompt(const Tokenizer& tokenizer, const ChatTemplate& chat, const Json& messages,
                  RenderOptions options = {});

// A JSON file: a list of messages, an object that has them (as a record of training data), a list of either,
// or one of either per line. Anything else is an input error that names the file.
struct Conversations {
  std::vector<Conversation> each;
  bool several = false;  // the file is a list of them, or has lines
};
// images: the model sees, and conversations may have images, whose sources are resolved.
Conversations ReadConversations(const std::string& path, bool images = false);

// eos_token_id of the directory's generation_config.json or else its config.json, one or several; otherwise
// the tokenizer's, if there is one.
std::set<int64_t> EndTokens(const std::string& directory, const Tokenizer* tokenizer);
// The special token that ends an assistant's turn, if the chat template has one.
std::optional<int64_t> TurnEnd(const Tokenizer& tokenizer, const ChatTemplate& chat);

// Positions that the model supports; nothing if its config.json does not say.
std::optional<int64_t> MostPositions(const std::string& directory);

// Rejects an empty prompt and one that leaves no room to generate. `where` names it.
void CheckPrompt(const Tokens& prompt, std::optional<int64_t> positions, const std::string& where);

}  // namespace trireme
