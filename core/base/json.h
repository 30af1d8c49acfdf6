// Reads and writes JSON: files, with errors that name the line, and the one-line objects that commands print.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace trireme {

// Keeps keys in the order they were written: people read these lines, too.
using Json = nlohmann::ordered_json;

// The deepest nesting that is accepted. Copying, printing and rendering a value recurse once per level, and
// the chat templates' own parser stops at 128.
inline constexpr int kDeepestJson = 100;

// `name` stands for the text in errors: "config.json:3: not JSON: …".
Json ParseJson(const std::string& text, const std::string& name);
// For objects with very many keys: lookup by search, key order is lost.
nlohmann::json ParseSortedJson(const std::string& text, const std::string& name);
// Discarded (is_discarded()) if not JSON, nested too deeply, or with a number or an object (10,000 keys) that is too
// large.
Json TryParseJson(std::string_view text);
// Whether brackets and braces open more than kDeepestJson levels.
bool IsNestedTooDeeply(std::string_view text);

Json ReadJsonFile(const std::string& path);

// One line without its newline. Non-finite numbers (nan, inf) become null, invalid UTF-8 becomes U+FFFD.
std::string JsonLine(const Json& value);

}  // namespace trireme
