#include "generation/json_tokens.h"

#include <algorithm>
#include <limits>
#include <set>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr size_t kMostRecent = 32;

// With these every object can be written: other characters have escapes.
constexpr const char* kNeeded = "{}[]\",:-+.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ\\ ";

}  // namespace

JsonTokens::JsonTokens(TokenBytes tokens) : tokens_(std::move(tokens)) {
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id] && !tokens_[id]->empty()) sorted_.push_back({.token = static_cast<int32_t>(id)});
  }
  const auto bytes = [&](const Sorted& each) -> const std::string& {
    return *tokens_[static_cast<size_t>(each.token)];
  };
  std::ranges::sort(sorted_, {}, bytes);
  for (size_t i = 1; i < sorted_.size(); ++i) {
    const std::string &before = bytes(sorted_[i - 1]), &mine = bytes(sorted_[i]);
    const size_t shorter = std::min(before.size(), mine.size());
    while (sorted_[i].common < shorter && before[sorted_[i].common] == mine[sorted_[i].common]) ++sorted_[i].common;
  }
  CheckBytes();
}

void JsonTokens::CheckBytes() {
  std::set<uint8_t> single;
  for (const std::optional<std::string>& bytes : tokens_) {
    if (bytes && bytes->size() == 1) single.insert(static_cast<uint8_t>(bytes->front()));
  }
  for (const char* byte = kNeeded; *byte != 0; ++byte) {
    if (single.contains(static_cast<uint8_t>(*byte))) continue;
    throw InputError("the tokenizer has no token '", std::string(1, *byte), "', which JSON needs");
  }
  for (int byte = 0x80; byte < 0xC0; ++byte) may_end_in_character_ &= single.contains(static_cast<uint8_t>(byte));
}

JsonTokens::Allowed JsonTokens::Find(const JsonGrammar& state) const {
  Allowed allowed(tokens_.size(), 0);
  std::vector<JsonGrammar> after = {state};  // after each byte of the latest token
  bool failed = false;                       // at the byte after those
  for (const Sorted& each : sorted_) {
    if (failed && each.common >= after.size()) continue;  // the same bytes, the one that failed, too
    after.resize(each.common + 1);
    const std::string& bytes = *tokens_[static_cast<size_t>(each.token)];
    failed = false;
    for (size_t i = each.common; i < bytes.size() && !failed; ++i) {
      JsonGrammar next = after.back();
      failed = !next.Take(static_cast<uint8_t>(bytes[i]));
      if (!failed) after.push_back(std::move(next));
    }
    const bool ends = !failed && (may_end_in_character_ || !after.back().in_character());
    allowed[static_cast<size_t>(each.token)] = ends ? 1 : 0;
  }
  return allowed;
}

const JsonTokens::Allowed& JsonTokens::AllowedIn(const JsonGrammar& state) const {
  std::string key = state.key();
  const auto found = std::ranges::find_if(recent_, [&](const auto& entry) { return entry.first == key; });
  if (found != recent_.end()) {
    recent_.splice(recent_.begin(), recent_, found);
    return recent_.front().second;
  }
  if (recent_.size() >= kMostRecent) recent_.pop_back();
  return recent_.emplace_front(std::move(key), Find(state)).second;
}

void JsonTokens::Restrict(std::span<float> logits, const JsonGrammar& state) const {
  const Allowed& allowed = AllowedIn(state);
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const size_t both = std::min(logits.size(), allowed.size());
  for (size_t id = 0; id < both; ++id) logits[id] = allowed[id] != 0 ? logits[id] : kNever;
  std::fill(logits.begin() + static_cast<int64_t>(both), logits.end(), kNever);
}

void JsonTokens::Take(JsonGrammar& state, int64_t token) const {
  for (const char byte : *tokens_.at(static_cast<size_t>(token))) {
    TRIREME_CHECK(state.Take(static_cast<uint8_t>(byte))) << "token " << token << " may not come here";
  }
}

}  // namespace trireme
