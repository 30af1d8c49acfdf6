// JSON in and out: files with errors that name the line, and the one-line objects that commands print.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace trireme {

// Keeps keys in the order they were written: people read these lines too.
using Json = nlohmann::ordered_json;

// `name` stands for the text in errors: "config.json:3: not JSON: …".
Json ParseJson(const std::string& text, const std::string& name);

Json ReadJsonFile(const std::string& path);

// One line without its end. What is no number (nan, inf) becomes null, bytes that are no UTF-8 become U+FFFD.
std::string JsonLine(const Json& value);

}  // namespace trireme
