#include "text/chat_template.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "text/library.h"
#include "text/turn_finder.h"

namespace trireme {
namespace {

std::string TemplateOfConfig(const Json& config, const std::string& path) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null()) return {};
  if (found->is_string()) return found->get<std::string>();
  for (const Json& entry : *found) {  // several, by name
    if (!entry.is_object() || !entry.contains("name") || entry["name"] != "default") continue;
    if (entry.contains("template") && entry["template"].is_string()) return entry["template"].get<std::string>();
  }
  throw InputError(path, ": chat_template has no entry named default");
}

// Empty if the directory has none.
std::string TemplateOfDirectory(const std::filesystem::path& folder) {
  if (PathExists(folder / "chat_template.jinja")) {
    return ReadTextFile((folder / "chat_template.jinja").string());
  }
  const std::string apart = (folder / "chat_template.json").string();  // of processors, for models that see
  if (PathExists(apart)) {
    if (std::string found = TemplateOfConfig(ReadJsonFile(apart), apart); !found.empty()) return found;
  }
  const std::string path = (folder / "tokenizer_config.json").string();
  return PathExists(path) ? TemplateOfConfig(ReadJsonFile(path), path) : std::string();
}

size_t CommonLength(const std::string& a, const std::string& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

ChatTemplate::ChatTemplate(const std::string& source, const Json& special_tokens, const std::string& name, Json values)
    : source_(source),
      name_(name),
      values_(std::move(values)),
      marks_generation_(source.find(" endgeneration ") != std::string::npos) {
  const std::string variables = special_tokens.dump();
  ThrowLibraryError(trireme_template_open(source.data(), source.size(), variables.data(), variables.size(), &handle_),
                    name + ": is not a chat template: ");
  LearnTurn();
}

std::string ChatTemplate::SourceOf(const std::string& directory) {
  std::string source = TemplateOfDirectory(directory);
  if (!source.empty()) return source;
  throw InputError(directory,
                   ": its tokenizer has no chat template; add a chat_template.jinja there, or set "
                   "data.template to a file");
}

ChatTemplate ChatTemplate::Of(const Tokenizer& tokenizer) { return Of(tokenizer, ""); }

ChatTemplate ChatTemplate::Of(const Tokenizer& tokenizer, const std::string& choice, Json values) {
  const std::string source = choice.empty() ? SourceOf(tokenizer.directory()) : ReadTextFile(choice);
  const std::string name = choice.empty() ? tokenizer.directory() + ": chat template" : choice;
  return ChatTemplate(source, tokenizer.special_tokens(), name, std::move(values));
}

ChatTemplate::~ChatTemplate() {
  if (handle_ != nullptr) trireme_template_close(handle_);
}

ChatTemplate::ChatTemplate(ChatTemplate&& other) noexcept
    : source_(std::move(other.source_)),
      name_(std::move(other.name_)),
      values_(std::move(other.values_)),
      handle_(std::exchange(other.handle_, nullptr)),
      marks_generation_(other.marks_generation_),
      opening_(std::move(other.opening_)),
      ending_(std::move(other.ending_)) {}

std::string ChatTemplate::Render(const Json& messages, const RenderOptions& options) const {
  Json context = values_;
  context.update(options.variables);
  context["messages"] = messages;
  context["tools"] = options.tools;
  context["documents"] = nullptr;
  context["add_generation_prompt"] = options.add_generation_prompt;
  const std::string json = context.dump(-1, ' ', false, Json::error_handler_t::replace);
  TriremeText raw{};
  ThrowLibraryError(trireme_template_render(handle_, json.data(), json.size(), &raw), name_ + ": ");
  return TakeText(raw);
}

// From three small conversations: what precedes an answer both when one is requested and when one is
// given, and what follows it. Templates that reject these conversations leave both empty.
void ChatTemplate::LearnTurn() {
  const std::string answer = "an answer to learn from";
  const Json question = Json::array({{{"role", "user"}, {"content", "a question"}}});
  Json answered = question;
  answered.push_back({{"role", "assistant"}, {"content", answer}});
  try {
    const std::string asked = Render(question);
    const std::string open = Render(question, {.add_generation_prompt = true});
    const std::string whole = Render(answered);
    const size_t place = whole.find(answer);
    if (!open.starts_with(asked) || !whole.starts_with(asked) || place == std::string::npos) return;
    const std::string prompt = open.substr(asked.size());
    opening_ = prompt.substr(0, CommonLength(prompt, whole.substr(asked.size(), place - asked.size())));
    ending_ = whole.substr(place + answer.size());
  } catch (const Error&) {
  }
}

std::vector<AssistantTurn> ChatTemplate::MarkedTurns(const Json& messages, const RenderOptions& options) const {
  // Noncharacters: they do not occur in real text.
  const std::string begin = "\xEF\xB7\x90", end = "\xEF\xB7\x91";
  RenderOptions marked = options;
  marked.variables["generation_marks"] = {begin, end};
  const std::string text = Render(messages, marked);
  std::vector<AssistantTurn> turns;
  size_t removed = 0, message = 0;
  for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
    const size_t stop = text.find(end, at);
    while (message < messages.size() && messages[message].value("role", "") != "assistant") ++message;
    turns.push_back({message++, at - removed, stop - removed - begin.size()});
    removed += begin.size() + end.size();
  }
  return turns;
}

RenderedChat ChatTemplate::RenderTurns(const Json& messages, const RenderOptions& options) const {
  RenderedChat chat{Render(messages, options), {}};
  const auto render = [&](const Json& conversation, bool prompt) {
    RenderOptions changed = options;
    changed.add_generation_prompt = prompt;
    return Render(conversation, changed);
  };
  const TurnSearch search{messages, chat.text, opening_, ending_, options.add_generation_prompt, render};
  if (marks_generation_) {
    chat.turns = MarkedTurns(messages, options);
    chat.lost = FindLost(search);
    return chat;
  }
  FoundTurns found = FindTurns(search);
  chat.turns = std::move(found.turns);
  chat.lost = std::move(found.lost);
  return chat;
}

std::string ChatTemplate::RenderAll(const Json& messages, const RenderOptions& options) const {
  std::string text = Render(messages, options);
  const auto render = [&](const Json& conversation, bool) { return Render(conversation, options); };
  const auto lost = FindLost({messages, text, opening_, ending_, options.add_generation_prompt, render});
  if (!lost.empty()) throw InputError(name_, ": ", LostText(messages, lost));
  return text;
}

std::string LostTool(const Json& tools, const std::string& text) {
  if (!tools.is_array()) return "";
  for (const Json& tool : tools) {
    const Json& function = tool.is_object() && tool.contains("function") ? tool["function"] : tool;
    const std::string name = function.is_object() ? function.value("name", "") : "";
    if (text.find(name) == std::string::npos) return name;
  }
  return "";
}

std::string LostText(const Json& messages, const std::vector<size_t>& lost) {
  if (lost.empty()) return {};
  const Json& message = messages[lost.front()];
  const std::string role = message.value("role", "");
  return Concat("message ", lost.front() + 1, " of ", messages.size(), ", of the role ", role,
                ", is not in the text that the chat template renders: ",
                message.value("content", Json()).dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60),
                role == "developer" ? "; use the role system, or a template that supports developer"
                                    : "; set data.template to a template that renders it, or remove the message");
}

}  // namespace trireme
