// Text put together and taken apart: lists with separators, blank lines, numbers with their nouns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace trireme {

// What text_of gives for each element, with the separator between them: "a, b, c".
template <typename Range, typename TextOf>
std::string Join(Range&& range, std::string_view separator, const TextOf& text_of) {
  std::string text;
  bool is_first = true;
  for (const auto& each : range) {
    if (!is_first) text += separator;
    is_first = false;
    text += Concat(text_of(each));
  }
  return text;
}

// Elements as they print.
template <typename Range>
std::string Join(Range&& range, std::string_view separator = ", ") {
  return Join(range, separator, [](const auto& each) -> const auto& { return each; });
}
inline std::string Join(const std::vector<std::string>& words, std::string_view separator = ", ") {
  return Join<const std::vector<std::string>&>(words, separator);
}

// Nothing but spaces, tabs and line ends.
inline bool IsBlank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

// "1 rank", "2 ranks": for nouns that take an s.
inline std::string Counted(int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace trireme
