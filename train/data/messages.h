// Messages in the form that chat templates read: role and content, tool calls as in OpenAI's
// API. Accepts ShareGPT's names and pairs, and the roles of ms-swift and LLaMA-Factory.
#pragma once

#include <string>

#include "core/base/json.h"

namespace trireme {

// `list`: the messages of a record. Anything that is not a message is an input error with its position in the
// list.
Json NormalMessages(const Json& list);

// Rejects a record or a message with images, audio or video: their placeholders would be trained on as
// text.
void RefuseMedia(const Json& object);

// Table columns hold JSON as strings: such a string is parsed, anything else is returned unchanged.
Json ParseIfText(const Json& value, const std::string& key);

}  // namespace trireme
