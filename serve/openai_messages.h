// Messages and tools of OpenAI's chat requests, as chat templates expect them. Each field is honoured or refused with
// its name. Knows no tokens and no sampling, and opens no image.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "serve/fields.h"

namespace trireme {

// An image of a user's message. Its bytes are in the request: a server that fetched addresses or opened files on behalf
// of strangers would reach for them what they cannot reach.
struct MessageImage {
  std::string url;    // data:…;base64,…
  std::string param;  // "messages[0].content[1].image_url"
};

// "messages": roles, text parts joined, tool calls of the assistant with their arguments as objects. Images become
// parts
// {"type": "image"} and are appended to `images`; more than `most_images`, 0 for a model that does not see, are
// refused.
Json ReadMessages(Fields& fields, int64_t most_images, std::vector<MessageImage>& images);
// The same messages with the arguments of tool calls as JSON text, which some templates want.
Json WithArgumentsAsText(Json messages);
// "tools": as templates see them; null if there are none.
Json ReadTools(Fields& fields);

}  // namespace trireme
