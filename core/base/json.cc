// JSON over nlohmann-json, whose errors count bytes where people count lines.
#include "core/base/json.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/file.h"

namespace trireme {
namespace {

// nlohmann's text is "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error …".
std::string Reason(const std::string& what) {
  const size_t colon = what.find(": ");
  return colon == std::string::npos ? what : what.substr(colon + 2);
}

}  // namespace

Json ParseJson(const std::string& text, const std::string& name) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    const size_t byte = std::min(error.byte, text.size());
    const auto line = 1 + std::count(text.begin(), text.begin() + byte - (byte > 0), '\n');
    throw InputError(name, ":", line, ": not JSON: ", Reason(error.what()));
  }
}

Json ReadJsonFile(const std::string& path) { return ParseJson(ReadTextFile(path), path); }

std::string JsonLine(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace trireme
