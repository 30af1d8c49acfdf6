// Messages in the one form that chat templates read: role and content, tools called as OpenAI's interface has
// it. Takes ShareGPT's names and pairs, and the roles of ms-swift and LLaMA-Factory.
#pragma once

#include <string>

#include "core/base/json.h"

namespace trireme {

// `list`: the messages as they stand in a record. Refuses what is no message, with its place in the list.
Json NormalMessages(const Json& list);

// Refuses a record or a message that brings images, audio or video: their placeholders would be trained as
// text.
void RefuseMedia(const Json& object);

// Columns of tables hold JSON as text: such a text is parsed, anything else is given back.
Json ParseIfText(const Json& value, const std::string& key);

}  // namespace trireme
