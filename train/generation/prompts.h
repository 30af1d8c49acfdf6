// What a model is asked to go on from: text or conversations as tokens, and which tokens end its answers. No
// torch.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "train/data/samples.h"
#include "train/tokenizer/chat_template.h"
#include "train/tokenizer/tokenizer.h"

namespace trireme {

using Tokens = std::vector<int64_t>;

// The tokens of a text as the tokenizer frames every text, with bos where the model wants it.
Tokens TextPrompt(const Tokenizer& tokenizer, const std::string& text);
// A conversation up to where the assistant begins to write.
Tokens ChatPrompt(const Tokenizer& tokenizer, const ChatTemplate& chat, const Json& messages,
                  RenderOptions options = {});

// A JSON file: a list of messages, an object that has them (as a record of training data), a list of either,
// or either a line. Refuses what is none of these, with the file.
struct Conversations {
  std::vector<Conversation> each;
  bool several = false;  // the file is a list of them, or has lines
};
Conversations ReadConversations(const std::string& path);

// eos_token_id of the directory's generation_config.json or else its config.json, one or several; none: what
// the tokenizer says, where there is one.
std::set<int64_t> EndTokens(const std::string& directory, const Tokenizer* tokenizer);
// The special token that ends an assistant's turn, where the chat template has one.
std::optional<int64_t> TurnEnd(const Tokenizer& tokenizer, const ChatTemplate& chat);

// Positions that the model was made for; nothing where its config.json does not say.
std::optional<int64_t> MostPositions(const std::string& directory);

// Refuses an empty prompt and one that leaves no room to write. `where` names it.
void CheckPrompt(const Tokens& prompt, std::optional<int64_t> positions, const std::string& where);

}  // namespace trireme
