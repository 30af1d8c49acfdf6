// Messages and tools of OpenAI's chat requests, as chat templates expect them. Each field is honoured or refused with
// its name. Knows no tokens and no sampling.
#pragma once

#include "core/base/json.h"
#include "serve/fields.h"

namespace trireme {

// "messages": roles, text parts joined, tool calls of the assistant with their arguments as objects.
Json ReadMessages(Fields& fields);
// The same messages with the arguments of tool calls as JSON text, which some templates want.
Json WithArgumentsAsText(Json messages);
// "tools": as templates see them; null if there are none.
Json ReadTools(Fields& fields);

}  // namespace trireme
