// What a record is: a conversation, plain text, or tokens; from whichever of the known formats it is written
// in. Knows no tokenizer.
#pragma once

#include <map>
#include <string>
#include <variant>

#include "core/base/json.h"
#include "train/data/row_store.h"

namespace trireme {

struct Conversation {
  Json messages;         // [{"role": system | user | assistant | tool, "content": …, …}, …]
  Json tools = nullptr;  // a list of functions, or null
};

struct PlainText {
  std::string text;
};

using Sample = std::variant<Conversation, PlainText, StoredRow>;

struct SampleOptions {
  std::map<std::string, std::string> columns;  // their name of a column to ours
  std::string system;                          // for conversations that bring none
};

// An input error that says which keys were found and which were wanted; it does not name the place.
Sample ReadSample(Json record, const SampleOptions& options);

}  // namespace trireme
