#include "translate/shell_conditions.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "translate/shell.h"

namespace trireme {
namespace {

using Words = std::vector<std::string>;

std::optional<int64_t> NumberIn(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

Truth Compared(const std::string& left, const std::string& by, const std::string& right) {
  if (by == "=" || by == "==") return MatchesOne(left, {right});
  if (by == "!=") return Not(MatchesOne(left, {right}));
  const auto a = NumberIn(left), b = NumberIn(right);
  if (!a || !b) return std::nullopt;
  if (by == "-eq") return *a == *b;
  if (by == "-ne") return *a != *b;
  if (by == "-lt") return *a < *b;
  if (by == "-le") return *a <= *b;
  if (by == "-gt") return *a > *b;
  if (by == "-ge") return *a >= *b;
  return std::nullopt;
}

Truth IsEmpty(const std::string& text) { return UnknownIn(text).empty() ? Truth(text.empty()) : std::nullopt; }

Truth One(const Words& words) {
  if (!words.empty() && words.front() == "!") return Not(One(Words(words.begin() + 1, words.end())));
  if (words.size() == 1) return Not(IsEmpty(words[0]));
  if (words.size() == 2 && words[0] == "-z") return IsEmpty(words[1]);
  if (words.size() == 2 && words[0] == "-n") return Not(IsEmpty(words[1]));
  if (words.size() == 3) return Compared(words[0], words[1], words[2]);
  return std::nullopt;
}

// The parts between the separators, each by `inner`, joined by `join`.
Truth Split(const Words& words, const Words& separators, const std::function<Truth(const Words&)>& inner,
            Truth (*join)(Truth, Truth)) {
  const auto at = std::ranges::find_first_of(words, separators);
  if (at == words.end()) return inner(words);
  const Truth first = inner(Words(words.begin(), at));
  return join(first, Split(Words(at + 1, words.end()), separators, inner, join));
}

}  // namespace

Truth Both(Truth left, Truth right) {
  if (left == false || right == false) return false;
  return left && right ? Truth(true) : std::nullopt;
}

Truth Either(Truth left, Truth right) {
  if (left == true || right == true) return true;
  return left && right ? Truth(false) : std::nullopt;
}

Truth Not(Truth one) { return one ? Truth(!*one) : std::nullopt; }

Truth TestHolds(const Words& words) {
  const auto all = [](const Words& part) { return Split(part, {"&&", "-a"}, One, Both); };
  return Split(words, {"||", "-o"}, all, Either);
}

Truth MatchesOne(const std::string& text, const Words& patterns) {
  if (!UnknownIn(text).empty()) return std::nullopt;
  Truth any = false;
  for (const std::string& pattern : patterns) {
    any =
        Either(any, UnknownIn(pattern).empty() ? Truth(fnmatch(pattern.c_str(), text.c_str(), 0) == 0) : std::nullopt);
  }
  return any;
}

}  // namespace trireme
