// JSON through nlohmann-json; its byte offsets become line numbers.
#include "core/base/json.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {
namespace {

// nlohmann's message is "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error …",
// for a number that is too large "[json.exception.out_of_range.406] number overflow parsing '1e999'".
std::string Reason(const std::string& what) {
  const size_t colon = what.find(": ");
  if (colon != std::string::npos) return what.substr(colon + 2);
  const size_t bracket = what.find("] ");
  return bracket == std::string::npos ? what : what.substr(bracket + 2);
}

template <typename Parsed>
Parsed ParseAs(const std::string& text, const std::string& name) {
  if (IsNestedTooDeeply(text)) {
    throw InputError(name, ": is nested too deeply; at most ", kDeepestJson, " levels are read");
  }
  try {
    return Parsed::parse(text);
  } catch (const nlohmann::detail::parse_error& error) {
    const size_t byte = std::min(error.byte, text.size());
    const auto line = 1 + std::count(text.begin(), text.begin() + byte - (byte > 0), '\n');
    throw InputError(name, ":", line, ": not JSON: ", Reason(error.what()));
  } catch (const nlohmann::detail::exception& error) {
    throw InputError(name, ": cannot be read as JSON: ", Reason(error.what()));
  }
}

// Whether `is_bad` says so of any letter outside strings.
template <typename IsBad>
bool AnyOutsideStrings(std::string_view text, IsBad is_bad) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) i += text[i] == '\\';
    } else if (is_bad(text[i])) {
      return true;
    }
  }
  return false;
}

// Every key is searched among those before it: an object of very many, from someone who means harm, takes minutes.
constexpr int64_t kMostKeys = 10'000;

// Of a text that is not nested too deeply.
bool HasTooManyKeys(std::string_view text) {
  std::array<int64_t, kDeepestJson + 1> keys = {};  // of the open containers
  size_t depth = 0;
  return AnyOutsideStrings(text, [&](char letter) {
    if (letter == '[' || letter == '{') keys[++depth] = 0;
    if ((letter == ']' || letter == '}') && depth > 0) --depth;
    return letter == ':' && ++keys[depth] > kMostKeys;
  });
}

}  // namespace

bool IsNestedTooDeeply(std::string_view text) {
  int depth = 0;
  return AnyOutsideStrings(text, [&](char letter) {
    if (letter == ']' || letter == '}') --depth;
    return (letter == '[' || letter == '{') && ++depth > kDeepestJson;
  });
}

Json TryParseJson(std::string_view text) {
  if (IsNestedTooDeeply(text) || HasTooManyKeys(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

Json ParseJson(const std::string& text, const std::string& name) { return ParseAs<Json>(text, name); }

nlohmann::json ParseSortedJson(const std::string& text, const std::string& name) {
  return ParseAs<nlohmann::json>(text, name);
}

Json ReadJsonFile(const std::string& path) { return ParseJson(ReadTextFile(path), path); }

std::string JsonLine(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace trireme
