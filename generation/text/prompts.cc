#include "generation/text/prompts.h"

#include <filesystem>
#include <sstream>
#include <variant>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "data/image_marks.h"
#include "data/messages.h"
#include "models/hf_config.h"

namespace trireme {
namespace {

Tokens AsTokens(const std::vector<int32_t>& ids) { return {ids.begin(), ids.end()}; }

std::set<int64_t> EndTokensOf(const std::filesystem::path& path) {
  if (!PathExists(path)) return {};
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

bool HasMessages(const Json& json) {
  return json.is_object() &&
         (json.contains("messages") || json.contains("conversations") || json.contains("conversation"));
}

// A list of messages, or an object that has them.
Conversation ReadConversation(const Json& json, bool images) {
  if (HasMessages(json))
    return std::get<Conversation>(ReadSample(json, {.columns = {}, .system = {}, .images = images}));
  Conversation found{.messages = NormalMessages(json, images)};
  if (images) found.images = PlaceImages(found.messages, {});
  return found;
}

// Paths of images are relative to the file.
struct ConversationFile {
  std::string path;
  bool images = false;
};

Conversation ConversationOf(const Json& json, const ConversationFile& file, const std::string& where) {
  try {
    Conversation found = ReadConversation(json, file.images);
    found.images = ResolvedImages(std::move(found.images), std::filesystem::path(file.path).parent_path());
    return found;
  } catch (const Error& error) {
    throw InputError(where, ": ", error.what());
  }
}

Conversations ReadLines(const std::string& text, const ConversationFile& file) {
  const std::string& path = file.path;
  Conversations conversations{{}, true};
  std::istringstream lines(text);
  std::string line;
  for (int64_t number = 1; std::getline(lines, line); ++number) {
    if (IsBlank(line)) continue;
    const std::string where = Concat(path, ":", number);
    conversations.each.push_back(ConversationOf(ParseJson(line, where), file, where));
  }
  if (conversations.each.empty()) throw InputError(path, ": has no conversation");
  return conversations;
}

}  // namespace

Tokens TextPrompt(const Tokenizer& tokenizer, const std::string& text) {
  return AsTokens(tokenizer.Encode(text, {.add_special = true}).ids);
}

Tokens ChatPrompt(const Tokenizer& tokenizer, const ChatTemplate& chat, const Json& messages, RenderOptions options) {
  options.add_generation_prompt = true;
  const std::string text = chat.RenderAll(messages, options);
  if (const std::string tool = LostTool(options.tools, text); !tool.empty()) {
    throw InputError("the chat template does not render the tool ", tool,
                     "; set data.template to one that does, or leave the tools out");
  }
  return AsTokens(tokenizer.Encode(text).ids);
}

Conversations ReadConversations(const std::string& path, bool images) {
  const ConversationFile file{path, images};
  const std::string text = ReadTextFile(path);
  const std::string ending = std::filesystem::path(path).extension().string();
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool objects = first != std::string::npos && text[first] == '{';
  if (ending == ".jsonl" || ending == ".ndjson" || (objects && !Json::accept(text))) return ReadLines(text, file);
  const Json json = ParseJson(text, path);
  if (HasMessages(json)) return {{ConversationOf(json, file, path)}, false};
  if (!json.is_array() || json.empty()) {
    throw InputError(
        path,
        ": wanted a list of messages such as [{\"role\": \"user\", \"content\": \"…\"}], an object with such "
        "\"messages\", or a list of either");
  }
  if (!json.front().is_array() && !HasMessages(json.front())) return {{ConversationOf(json, file, path)}, false};
  Conversations conversations{{}, true};
  for (size_t i = 0; i < json.size(); ++i) {
    conversations.each.push_back(ConversationOf(json[i], file, Concat(path, ": conversation ", i + 1)));
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
  return HfConfig::Read(directory).LongestSequence();
}

void CheckPrompt(const Tokens& prompt, std::optional<int64_t> positions, const std::string& where) {
  if (prompt.empty()) throw InputError(where, ": has no tokens; wanted at least one");
  if (positions && static_cast<int64_t>(prompt.size()) >= *positions) {
    throw InputError(where, ": has ", prompt.size(), " tokens, which leaves no room to generate; the model supports ",
                     *positions, " (max_position_embeddings)");
  }
}

}  // namespace trireme
