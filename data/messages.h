// Messages in the form that chat templates read: role and content, tool calls as in OpenAI's
// API. Accepts ShareGPT's names and pairs, and the roles of ms-swift and LLaMA-Factory.
#pragma once

#include <string>

#include "core/base/json.h"

namespace trireme {

// `list`: the messages of a record. Anything that is not a message is an input error with its position in the
// list. `images`: contents with images stay lists of parts (image_marks.h); otherwise such parts are refused.
Json NormalMessages(const Json& list, bool images = false);

// Rejects a record or a message with images, audio or video: their placeholders would be trained on as
// text. `images`: these may be there.
void RefuseMedia(const Json& object, bool images = false);

// Rejects a record with columns that other systems act on and that have no meaning here: boxes of objects in images
// (`objects`), and a `channel` whose loss is to be told apart. The first rejects only the boxes.
void RefuseGrounding(const Json& record);
void RefuseUnusedColumns(const Json& record);

// Table columns hold JSON as strings: such a string is parsed, anything else is returned unchanged.
Json ParseIfText(const Json& value, const std::string& key);

}  // namespace trireme
