// Tools in `trireme generate`: the functions that a model may call, and the calls in what it wrote. Calls none. No
// torch.
#pragma once

#include <string>

#include "core/base/json.h"
#include "serve/tool_calls.h"

namespace trireme {

// A JSON file: a list of functions as in OpenAI's API, or an object that has them as "tools". An input error that names
// the file if it is something else.
Json ReadToolsFile(const std::string& path);

// What a model wrote, as a message for the next turn: its calls as tool_calls, what is around them as content. Without
// a form, and without calls, the content is all of it.
Json AssistantMessage(ToolForm form, const std::string& text);

// Its calls as a list of {"name", "arguments"}; empty: there is none.
Json ToolCallsIn(ToolForm form, const std::string& text);

}  // namespace trireme
