// What a record is: a conversation, plain text, or tokens; from whichever of the known formats it is written
// in. Knows no tokenizer.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/json.h"
#include "data/row_store.h"

namespace trireme {

struct Conversation {
  Json messages;                         // [{"role": system | user | assistant | tool, "content": …, …}, …]
  Json tools = nullptr;                  // a list of functions, or null
  Json variables = Json::object();       // of the chat template
  std::vector<std::string> images = {};  // sources, in the order of the messages' parts {"type": "image"}
};

struct PlainText {
  std::string text;
};

using Sample = std::variant<Conversation, PlainText, StoredRow>;

struct SampleOptions {
  std::map<std::string, std::string> columns;                     // from the file's column name to ours
  std::string system;                                             // for conversations without one
  bool images = false;                                            // the model sees: conversations may have images
  std::vector<std::pair<std::string, std::string>> replace = {};  // texts of messages, and what stands for them
};

// Throws an input error with the keys found and the keys wanted; it does not name the location.
Sample ReadSample(Json record, const SampleOptions& options);

}  // namespace trireme
