#include "serve/tool_calls.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/base/json.h"

namespace trireme {

using Calls = std::optional<std::vector<ToolCall>>;

struct ToolFormat {
  const char* name;
  const char* sign;  // in a chat template that shows the form; of several forms the first in the list counts
  std::vector<std::string> openings;
  std::string closing;                        // empty: a call reaches to the end of the answer
  bool only_first;                            // the openings count at the begin of an answer only
  Calls (*read)(const std::string& between);  // nothing: not a call
};

namespace {

std::string Stripped(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n"), last = text.find_last_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

// {"name": "f", "arguments": {…}}; some models write "parameters", or the arguments as a text.
std::optional<ToolCall> CallOf(const Json& json) {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return std::nullopt;
  const char* key = json.contains("arguments") ? "arguments" : "parameters";
  if (!json.contains(key)) return std::nullopt;
  const Json given = json[key].is_string() ? TryParseJson(json[key].get<std::string>()) : json[key];
  if (!given.is_object()) return std::nullopt;
  return ToolCall{.name = json["name"].get<std::string>(), .arguments = JsonLine(given)};
}

Calls ReadHermes(const std::string& between) {
  const std::optional<ToolCall> call = CallOf(TryParseJson(Stripped(between)));
  return call ? Calls({*call}) : std::nullopt;
}

// One object, or several with semicolons between them.
Calls ReadLlama(const std::string& between) {
  std::vector<ToolCall> calls;
  std::string rest = Stripped(between);
  while (!rest.empty()) {
    size_t end = rest.find(';');
    std::optional<ToolCall> call = CallOf(TryParseJson(rest.substr(0, end)));
    while (!call && end != std::string::npos) {  // the semicolon may be part of an argument
      end = rest.find(';', end + 1);
      call = CallOf(TryParseJson(rest.substr(0, end)));
    }
    if (!call) return std::nullopt;
    calls.push_back(*call);
    rest = end == std::string::npos ? "" : Stripped(rest.substr(end + 1));
  }
  return calls.empty() ? std::nullopt : Calls(calls);
}

const std::string kCallBegin = "<｜tool▁call▁begin｜>", kCallEnd = "<｜tool▁call▁end｜>", kCallSep = "<｜tool▁sep｜>";

// V3: "function", separator, the name, and the arguments fenced as JSON; V3.1: the name, separator, the arguments.
std::optional<ToolCall> ReadDeepSeekCall(const std::string& text) {
  const size_t separator = text.find(kCallSep);
  if (separator == std::string::npos) return std::nullopt;
  std::string name = Stripped(text.substr(0, separator)), arguments = text.substr(separator + kCallSep.size());
  const size_t fence = arguments.find("```json");
  if (name == "function" && fence != std::string::npos) {
    name = Stripped(arguments.substr(0, fence));
    arguments = arguments.substr(fence + 7);
    const size_t last = arguments.rfind("```");
    if (last == std::string::npos) return std::nullopt;
    arguments.resize(last);
  }
  return CallOf({{"name", name}, {"arguments", TryParseJson(Stripped(arguments))}});
}

Calls ReadDeepSeek(const std::string& between) {
  std::vector<ToolCall> calls;
  for (size_t at = between.find(kCallBegin); at != std::string::npos; at = between.find(kCallBegin, at + 1)) {
    const size_t begin = at + kCallBegin.size(), end = between.find(kCallEnd, begin);
    if (end == std::string::npos) return std::nullopt;
    const std::optional<ToolCall> call = ReadDeepSeekCall(between.substr(begin, end - begin));
    if (!call) return std::nullopt;
    calls.push_back(*call);
  }
  return calls.empty() ? std::nullopt : Calls(calls);
}

const std::array<ToolFormat, 3>& Forms() {
  static const std::array<ToolFormat, 3> forms = {{
      {"deepseek_v3",
       "<｜tool▁calls▁begin｜>",
       {"<｜tool▁calls▁begin｜>"},
       "<｜tool▁calls▁end｜>",
       false,
       ReadDeepSeek},
      {"hermes", "<tool_call>", {"<tool_call>"}, "</tool_call>", false, ReadHermes},
      {"llama3_json", "\"parameters\":", {"<|python_tag|>", "{"}, "", true, ReadLlama},
  }};
  return forms;
}

// How much of the end of the text may be the begin of the mark.
size_t MaybeBegin(const std::string& text, const std::string& mark) {
  for (size_t size = std::min(mark.size() - 1, text.size()); size > 0; --size) {
    if (text.ends_with(std::string_view(mark).substr(0, size))) return size;
  }
  return 0;
}

}  // namespace

ToolForm FindToolForm(const std::string& name) {
  for (const ToolFormat& form : Forms()) {
    if (name == form.name) return &form;
  }
  return nullptr;
}

std::vector<std::string> ToolFormNames() {
  std::vector<std::string> names;
  for (const ToolFormat& form : Forms()) names.emplace_back(form.name);
  return names;
}

ToolForm ToolFormOf(const std::string& chat_template) {
  if (chat_template.find("tools") == std::string::npos) return nullptr;
  for (const ToolFormat& form : Forms()) {
    if (chat_template.find(form.sign) != std::string::npos) return &form;
  }
  return nullptr;
}

ToolPiece ToolCallReader::Take(const std::string& text) {
  buffer_ += text;
  ToolPiece piece;
  Scan(piece);
  return piece;
}

void ToolCallReader::Scan(ToolPiece& piece) {
  while (inside_ ? ScanInside(piece) : ScanOutside(piece)) {
  }
}

// Blanks after a call belong to no content.
void ToolCallReader::Content(const std::string& text, ToolPiece& piece) {
  if (text.empty() || (found_ && Stripped(text).empty())) return;
  begun_ = true;
  piece.content += text;
}

// Up to the next opening; blanks are held back, for a call may follow. Whether there was one.
bool ToolCallReader::ScanOutside(ToolPiece& piece) {
  const size_t text_begin = buffer_.find_first_not_of(" \t\r\n");
  size_t found = std::string::npos, held = 0;
  for (const std::string& opening : form_->openings) {
    const size_t at = buffer_.find(opening);
    const bool counts = !form_->only_first || (!begun_ && !found_ && at == text_begin);
    if (at < found && counts) {
      found = at;
      opening_ = opening;
    }
    if (!form_->only_first || (!begun_ && !found_)) held = std::max(held, MaybeBegin(buffer_, opening));
  }
  const size_t decided = found == std::string::npos ? buffer_.size() - held : found;
  const size_t last = decided == 0 ? std::string::npos : buffer_.find_last_not_of(" \t\r\n", decided - 1);
  const size_t content = last == std::string::npos ? 0 : last + 1;
  Content(buffer_.substr(0, content), piece);
  if (found == std::string::npos) {
    buffer_.erase(0, content);
    return false;
  }
  buffer_.erase(0, found + opening_.size());
  inside_ = true;
  return true;
}

// A closing mark inside an argument's text is none: what is before it does not parse.
bool ToolCallReader::ScanInside(ToolPiece& piece) {
  if (form_->closing.empty()) return false;
  for (size_t at = buffer_.find(form_->closing); at != std::string::npos; at = buffer_.find(form_->closing, at + 1)) {
    const Calls calls = form_->read(buffer_.substr(0, at));
    if (!calls) continue;
    piece.calls.insert(piece.calls.end(), calls->begin(), calls->end());
    buffer_.erase(0, at + form_->closing.size());
    found_ = true;
    inside_ = false;
    return true;
  }
  return false;
}

ToolPiece ToolCallReader::Finish() {
  ToolPiece piece;
  while (inside_) {
    inside_ = false;
    const std::string between = opening_ == "{" ? "{" + buffer_ : buffer_;
    if (const Calls calls = form_->read(between)) {  // without its closing mark
      piece.calls.insert(piece.calls.end(), calls->begin(), calls->end());
      found_ = true;
      return piece;
    }
    const size_t closing = form_->closing.empty() ? std::string::npos : buffer_.find(form_->closing);
    const size_t end = closing == std::string::npos ? buffer_.size() : closing + form_->closing.size();
    Content(opening_ + buffer_.substr(0, end), piece);
    buffer_.erase(0, end);
    Scan(piece);  // calls may follow what was none
  }
  Content(buffer_, piece);
  buffer_.clear();
  return piece;
}

}  // namespace trireme
