// Tools of a conversation and an assistant's calls of them, in the forms that chat templates read. What has neither
// form is refused: templates skip it without a word.
#pragma once

#include "core/base/json.h"

namespace trireme {

// The record's `tools`, a list of functions, also as JSON in a string; null: it has none.
Json ToolsIn(const Json& record);

// A message's `tool_calls`: a list of calls, also as JSON in a string. `message`: its number, for errors.
Json CallsIn(const Json& calls, size_t message);

}  // namespace trireme
