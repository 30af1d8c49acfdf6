#include "train/generation/prompts.h"

#include <filesystem>

#include "core/base/error.h"
#include "models/hf_config.h"
#include "train/data/messages.h"

namespace trireme {
namespace {

Tokens AsTokens(const std::vector<int32_t>& ids) { return {ids.begin(), ids.end()}; }

std::set<int64_t> EndTokensOf(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return {};
  const Json config = ReadJsonFile(path.string());
  const auto found = config.is_object() ? config.find("eos_token_id") : config.end();
  if (found == config.end() || found->is_null()) return {};
  std::set<int64_t> ends;
  for (const Json& id : found->is_array() ? *found : Json::array({*found})) {
    if (!id.is_number_integer()) {
      throw InputError(path.string(), ": eos_token_id has ", id.dump(), "; wanted whole numbers");
    }
    ends.insert(id.get<int64_t>());
  }
  return ends;
}

Json Messages(const Json& list, const std::string& where) {
  try {
    return NormalMessages(list);
  } catch (const Error& error) {
    throw InputError(where, ": ", error.what());
  }
}

}  // namespace

Tokens TextPrompt(const Tokenizer& tokenizer, const std::string& text) {
  return AsTokens(tokenizer.Encode(text, {.add_special = true}).ids);
}

Tokens ChatPrompt(const Tokenizer& tokenizer, const ChatTemplate& chat, const Json& messages) {
  return AsTokens(tokenizer.Encode(chat.Render(messages, {.add_generation_prompt = true})).ids);
}

Conversations ReadConversations(const std::string& path) {
  const Json json = ReadJsonFile(path);
  if (!json.is_array() || json.empty()) {
    throw InputError(
        path,
        ": wanted a list of messages such as [{\"role\": \"user\", \"content\": \"…\"}], or a list of "
        "such lists");
  }
  if (!json.front().is_array()) return {{Messages(json, path)}, false};
  Conversations conversations{{}, true};
  for (size_t i = 0; i < json.size(); ++i) {
    conversations.each.push_back(Messages(json[i], Concat(path, ": conversation ", i + 1)));
  }
  return conversations;
}

std::set<int64_t> EndTokens(const std::string& directory, const Tokenizer* tokenizer) {
  for (const char* file : {"generation_config.json", "config.json"}) {
    const std::set<int64_t> ends = EndTokensOf(std::filesystem::path(directory) / file);
    if (!ends.empty()) return ends;
  }
  const auto end = tokenizer == nullptr ? std::nullopt : tokenizer->end_of_text();
  return end ? std::set<int64_t>{*end} : std::set<int64_t>{};
}

std::optional<int64_t> TurnEnd(const Tokenizer& tokenizer, const ChatTemplate& chat) {
  const std::vector<int32_t> ids = tokenizer.Encode(chat.ending()).ids;
  if (ids.empty()) return std::nullopt;
  const std::vector<int32_t> first = {ids.front()};
  const bool special = tokenizer.Decode(first, /*skip_special=*/true).empty();
  return special ? std::optional<int64_t>(ids.front()) : std::nullopt;
}

std::optional<int64_t> MostPositions(const std::string& directory) {
  const HfConfig config = HfConfig::Read(directory);
  if (!config.Has("max_position_embeddings")) return std::nullopt;
  return config.Size("max_position_embeddings");
}

void CheckPrompt(const Tokens& prompt, std::optional<int64_t> positions, const std::string& where) {
  if (prompt.empty()) throw InputError(where, ": has no tokens; wanted at least one");
  if (positions && static_cast<int64_t>(prompt.size()) >= *positions) {
    throw InputError(where, ": has ", prompt.size(),
                     " tokens, which leave no room to write; the model takes ", *positions,
                     " (max_position_embeddings)");
  }
}

}  // namespace trireme
