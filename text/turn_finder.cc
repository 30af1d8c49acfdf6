#include "text/turn_finder.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "core/base/error.h"

namespace trireme {
namespace {

// Bytes of trailing white space in a text, as Python's str.strip defines it.
size_t TrailingSpace(std::string_view text) {
  static constexpr std::string_view kWide[] = {
      "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81", "\xE2\x80\x82", "\xE2\x80\x83",
      "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86", "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A",
      "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};
  const size_t size = text.size();
  while (!text.empty()) {
    const auto last = static_cast<unsigned char>(text.back());
    if (last == ' ' || (last >= 9 && last <= 13) || (last >= 28 && last <= 31)) {
      text.remove_suffix(1);
      continue;
    }
    const auto wide = std::ranges::find_if(kWide, [&](std::string_view space) { return text.ends_with(space); });
    if (wide == std::end(kWide)) break;
    text.remove_suffix(wide->size());
  }
  return size - text.size();
}

// A mark is PRIVATE number PRIVATE, with a private use character that does not occur in the text.
std::string UnusedCharacter(const std::string& text) {
  for (int low = 0x80; low < 0xC0; ++low) {
    std::string candidate = {static_cast<char>(0xEE), static_cast<char>(0x80), static_cast<char>(low)};
    if (text.find(candidate) == std::string::npos) return candidate;
  }
  throw InputError("a conversation contains all of U+E000 to U+E03F; one must be unused to mark its turns");
}

std::string* LastText(Json& content) {
  if (content.is_string()) return content.get_ptr<std::string*>();
  if (!content.is_array()) return nullptr;
  for (auto part = content.rbegin(); part != content.rend(); ++part) {
    if (part->is_object() && part->contains("text") && (*part)["text"].is_string()) {
      return (*part)["text"].get_ptr<std::string*>();
    }
  }
  return nullptr;
}

// The message's content without surrounding white space.
std::string SaidText(Json message) {
  const std::string* said = message.contains("content") ? LastText(message["content"]) : nullptr;
  if (said == nullptr) return {};
  const size_t begin = std::min(said->find_first_not_of(" \t\r\n"), said->size());
  return said->substr(begin, std::max(said->size() - TrailingSpace(*said), begin) - begin);
}

bool HasCalls(const Json& message) {
  const auto calls = message.find("tool_calls");
  return calls != message.end() && calls->is_array() && !calls->empty();
}

// Appends the mark to the message's content, or to its last call if it has no content. Returns the white
// space that the mark replaced: a template may or may not have dropped it; nothing if no mark was added.
std::optional<std::string> MarkMessage(Json& message, const std::string& mark) {
  std::string* text = message.contains("content") ? LastText(message["content"]) : nullptr;
  if (HasCalls(message) && (text == nullptr || text->empty())) {
    Json& last = message["tool_calls"].back();
    Json& call = last.contains("function") ? last["function"] : last;
    if (!call.contains("name") || !call["name"].is_string()) return std::nullopt;
    *call["name"].get_ptr<std::string*>() += mark;
    return std::string();
  }
  // Templates recognise a tool result in a user message by its ending, so it gets no mark.
  if (text == nullptr || text->starts_with("<tool_response>")) return std::nullopt;
  const size_t space = TrailingSpace(*text);
  std::string dropped = text->substr(text->size() - space);
  text->replace(text->size() - space, space, mark);
  return dropped;
}

struct Mark {
  size_t message = 0;
  size_t place = 0;  // in the text without marks
};

class Aligner {
 public:
  Aligner(const TurnSearch& search, const std::string& sign) : search_(search), sign_(sign) {
    Json marked = search.messages;
    for (size_t i = 0; i < marked.size(); ++i) dropped_.push_back(MarkMessage(marked[i], MarkOf(i)));
    marked_ = search.render(marked, search.generation_prompt);
  }

  // The marks in the order of the text; nothing if the marked text differs in more than marks and white
  // space.
  std::optional<std::vector<Mark>> Run() {
    std::vector<Mark> marks;
    size_t at = 0, place = 0;
    std::string_view slack;
    while (true) {
      const size_t next = marked_.find(sign_, at);
      const std::string_view piece = std::string_view(marked_).substr(at, next == std::string::npos ? next : next - at);
      if (!Step(piece, slack, place)) return std::nullopt;
      if (next == std::string::npos) break;
      const size_t stop = marked_.find(sign_, next + sign_.size());
      const size_t message = std::stoul(marked_.substr(next + sign_.size(), stop - next - sign_.size()));
      marks.push_back({message, place});
      slack = *dropped_[message];
      at = stop + sign_.size();
    }
    if (place != search_.text.size()) return std::nullopt;
    return marks;
  }

  // Messages whose mark is not in the rendered text; those without one are searched for verbatim. A
  // message without content and calls has nothing to lose.
  std::vector<size_t> Lost() const {
    std::vector<size_t> lost;
    for (size_t i = 0; i < dropped_.size(); ++i) {
      const std::string said = SaidText(search_.messages[i]);
      if (said.empty() && !HasCalls(search_.messages[i])) continue;
      const bool there =
          dropped_[i] ? marked_.find(MarkOf(i)) != std::string::npos : search_.text.find(said) != std::string::npos;
      if (!there) lost.push_back(i);
    }
    return lost;
  }

 private:
  std::string MarkOf(size_t message) const { return sign_ + std::to_string(message) + sign_; }

  // `piece` is in the text at `place`, perhaps after a part of `slack`: a template may strip either end
  // of it.
  bool Step(std::string_view piece, std::string_view slack, size_t& place) const {
    const std::string_view text = search_.text;
    for (size_t size = slack.size() + 1; size-- > 0;) {
      if (text.substr(std::min(place + size, text.size()), piece.size()) != piece) continue;
      if (slack.find(text.substr(place, size)) == std::string_view::npos) continue;
      place += size + piece.size();
      return true;
    }
    return false;
  }

  const TurnSearch& search_;
  const std::string sign_;
  std::vector<std::optional<std::string>> dropped_;  // by message; nothing: it has no mark
  std::string marked_;
};

size_t TurnBegin(const TurnSearch& search, size_t after, const Mark& mark) {
  if (!search.opening.empty()) {
    const size_t opening = search.text.find(search.opening, after);
    if (opening != std::string::npos && opening + search.opening.size() <= mark.place) {
      return opening + search.opening.size();
    }
  }
  // No opening text: the message's content starts the turn.
  const Json& content = search.messages[mark.message].value("content", Json());
  if (!content.is_string()) return mark.place;
  const std::string& said = content.get_ref<const std::string&>();
  const size_t size = said.size() - TrailingSpace(said);
  const bool whole = size <= mark.place && search.text.compare(mark.place - size, size, said, 0, size) == 0;
  return whole ? mark.place - size : mark.place;
}

size_t TurnEnd(const TurnSearch& search, const Mark& mark, size_t before) {
  if (search.ending.empty()) return mark.place;
  for (std::string_view ending = search.ending; !ending.empty(); ending.remove_suffix(TrailingSpace(ending))) {
    const size_t found = search.text.find(ending, mark.place);
    if (found != std::string::npos && found + ending.size() <= before) return found + ending.size();
    if (TrailingSpace(ending) == 0) break;
  }
  // A turn without its end, such as a call that some templates leave open: rendering the conversation up to
  // here shows it.
  Json first = search.messages;
  first.erase(first.begin() + static_cast<std::ptrdiff_t>(mark.message) + 1, first.end());
  const std::string text = search.render(first, false);
  return search.text.starts_with(text) && text.size() >= mark.place ? text.size() : mark.place;
}

// If marks cannot be used: renders the conversation up to each turn, with and without it.
std::vector<AssistantTurn> TurnsByPrefix(const TurnSearch& search) {
  std::vector<AssistantTurn> turns;
  Json first = Json::array();
  for (size_t i = 0; i < search.messages.size(); ++i) {
    const std::string before = search.messages[i].value("role", "") == "assistant" ? search.render(first, true) : "";
    first.push_back(search.messages[i]);
    if (search.messages[i].value("role", "") != "assistant") continue;
    const std::string with = search.render(first, false);
    if (!with.starts_with(before) || !search.text.starts_with(with)) {
      throw InputError("the chat template does not show where message ", i,
                       " of the conversation is; mark answers in it with {% generation %}");
    }
    turns.push_back({i, before.size(), with.size()});
  }
  return turns;
}

}  // namespace

FoundTurns FindTurns(const TurnSearch& search) {
  Aligner aligner(search, UnusedCharacter(search.text));
  std::vector<size_t> lost = aligner.Lost();
  const auto marks = aligner.Run();
  if (!marks) return {TurnsByPrefix(search), std::move(lost)};
  std::vector<AssistantTurn> turns;
  for (size_t i = 0; i < marks->size(); ++i) {
    const Mark& mark = (*marks)[i];
    if (search.messages[mark.message].value("role", "") != "assistant") continue;
    const size_t after = i > 0 ? (*marks)[i - 1].place : 0;
    const size_t before = i + 1 < marks->size() ? (*marks)[i + 1].place : search.text.size();
    turns.push_back({mark.message, TurnBegin(search, after, mark), TurnEnd(search, mark, before)});
  }
  return {std::move(turns), std::move(lost)};
}

std::vector<size_t> FindLost(const TurnSearch& search) { return Aligner(search, UnusedCharacter(search.text)).Lost(); }

}  // namespace trireme
