#include "serve/openai_messages.h"

#include <algorithm>

#include "core/base/error.h"

namespace trireme {
namespace {

constexpr size_t kMostTools = 128, kMostCalls = 128, kLongestName = 64;

bool IsFunctionName(const std::string& name) {
  return !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '_' || letter == '-' || letter == '.';
  });
}

std::string ReadFunctionName(Fields& function) {
  const std::string name = function.Text("name").value_or("");
  if (!IsFunctionName(name)) {
    function.Fail("name", Concat("wanted 1 to ", kLongestName, " letters, digits, '_', '-' or '.'"));
  }
  return name;
}

std::string TypeOf(const Json& part) {
  return part.is_object() && part.contains("type") && part["type"].is_string() ? part["type"].get<std::string>() : "";
}

// What of images is taken so far, and how many may be.
struct ImageList {
  int64_t most;
  std::vector<MessageImage>& images;
};

// {"type": "image_url", "image_url": {"url": "data:image/png;base64,…", "detail": "auto"}}
MessageImage ImageOfPart(const Json& part, const std::string& inside) {
  Fields fields(part, inside);
  fields.Accept({"type"});
  const Json* given = fields.Find("image_url");
  if (given == nullptr) fields.Fail("image_url", "is missing");
  fields.Finish();
  Fields image(*given, fields.PathOf("image_url"));
  const std::string url = image.Text("url").value_or(""), detail = image.Text("detail").value_or("auto");
  if (!url.starts_with("data:image/") || url.substr(0, url.find(',')).find(";base64") == std::string::npos) {
    image.Fail("url", "wanted data:image/…;base64,…: this server fetches no addresses and opens no files");
  }
  if (detail != "auto" && detail != "high")
    image.Fail("detail", "wanted auto or high: the model's own rule decides about the size");
  image.Finish();
  return {.url = url, .param = fields.PathOf("image_url")};
}

// `name`: of the part in its message.
void TakeImage(Fields& message, const Json& part, const std::string& name, const std::string& role, ImageList& list) {
  if (list.most == 0) message.Fail(name, "this server's model takes no images: only parts of type text are supported");
  if (role != "user") message.Fail(name, "images are for messages of the user");
  if (std::ssize(list.images) >= list.most) {
    message.Fail(name, Concat("is one image too many: this server takes ", list.most, " per request"));
  }
  list.images.push_back(ImageOfPart(part, message.PathOf(name)));
}

// Parts of text are joined, beside images those between them; anything else is refused.
Json ContentOf(Fields& message, const Json& content, const std::string& role, ImageList& list) {
  if (content.is_string() || content.is_null()) return content;
  if (!content.is_array()) message.Fail("content", "wanted a text or a list of parts");
  Json parts = Json::array();
  bool sees = false;
  for (size_t i = 0; i < content.size(); ++i) {
    const Json& part = content[i];
    const std::string type = TypeOf(part), name = Concat("content[", i, "]");
    if (type == "image_url") {
      TakeImage(message, part, name, role, list);
      parts.push_back({{"type", "image"}});
      sees = true;
    } else if (type == "text" && part.contains("text") && part["text"].is_string()) {
      const bool follows = !parts.empty() && parts.back().contains("text");
      if (!follows) parts.push_back({{"type", "text"}, {"text", ""}});
      parts.back()["text"].get_ref<std::string&>() += part["text"].get_ref<const std::string&>();
    } else {
      message.Fail(name, Concat("only parts of type text", list.most > 0 ? " and image_url" : "", " are supported"));
    }
  }
  if (sees) return parts;
  return parts.empty() ? Json("") : parts.front()["text"];
}

// {"id", "type": "function", "function": {"name", "arguments": "{…}"}}
Json CallOfHistory(const Json& given, const std::string& inside) {
  Fields fields(given, inside);
  if (fields.Text("type").value_or("function") != "function") fields.Fail("type", "only function is supported");
  const std::string id = fields.Text("id").value_or("");
  const Json* inner = fields.Find("function");
  if (inner == nullptr) fields.Fail("function", "is missing");
  Fields function(*inner, inside + ".function");
  const std::string name = ReadFunctionName(function);
  const Json arguments = TryParseJson(function.Text("arguments").value_or("{}"));
  if (!arguments.is_object()) function.Fail("arguments", "wanted a JSON object as text");
  function.Finish();
  fields.Accept({"index"});
  fields.Finish();
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
}

void ReadCalls(Fields& fields, const std::string& inside, Json& message) {
  const Json* calls = fields.Find("tool_calls");
  if (calls == nullptr || (calls->is_array() && calls->empty())) return;
  if (message["role"] != "assistant") fields.Fail("tool_calls", "is for messages of the assistant");
  if (!calls->is_array() || calls->size() > kMostCalls) {
    fields.Fail("tool_calls", Concat("wanted a list of at most ", kMostCalls, " calls"));
  }
  message["tool_calls"] = Json::array();
  for (size_t i = 0; i < calls->size(); ++i) {
    message["tool_calls"].push_back(CallOfHistory((*calls)[i], Concat(inside, ".tool_calls[", i, "]")));
  }
}

Json MessageOf(const Json& given, const std::string& inside, ImageList& list) {
  Fields fields(given, inside);
  std::string role = fields.Text("role").value_or("");
  if (role == "developer") role = "system";
  const std::vector<std::string> roles = {"system", "user", "assistant", "tool"};
  if (std::find(roles.begin(), roles.end(), role) == roles.end()) {
    fields.Fail("role", "wanted system, developer, user, assistant or tool");
  }
  const Json* content = fields.Find("content");
  Json message = {{"role", role},
                  {"content", ContentOf(fields, content == nullptr ? Json(nullptr) : *content, role, list)}};
  ReadCalls(fields, inside, message);
  if (message["content"].is_null() && !message.contains("tool_calls")) fields.Fail("content", "is missing");
  const auto id = fields.Text("tool_call_id");
  if (id && role != "tool") fields.Fail("tool_call_id", "is for messages of role tool");
  if (id) message["tool_call_id"] = *id;
  if (const auto name = fields.Text("name")) message["name"] = *name;
  fields.Refuse("function_call", "is not supported; use tool_calls");
  fields.Refuse("audio", "audio is not supported");
  fields.Accept({"refusal", "reasoning", "reasoning_content", "annotations"});
  fields.Finish();
  return message;
}

Json ToolOf(const Json& given, const std::string& inside) {
  Fields fields(given, inside);
  if (fields.Text("type").value_or("") != "function") fields.Fail("type", "only function is supported");
  const Json* inner = fields.Find("function");
  if (inner == nullptr) fields.Fail("function", "is missing");
  Fields function(*inner, inside + ".function");
  ReadFunctionName(function);
  function.Text("description");
  if (const Json* parameters = function.Find("parameters"); parameters != nullptr && !parameters->is_object()) {
    function.Fail("parameters", "wanted a JSON schema, an object");
  }
  function.Refuse("strict", "true needs decoding by a schema, which is not supported");
  function.Finish();
  fields.Finish();
  Json tool = {{"type", "function"}, {"function", *inner}};
  tool["function"].erase("strict");
  return tool;
}

}  // namespace

Json ReadMessages(Fields& fields, int64_t most_images, std::vector<MessageImage>& images) {
  const Json* given = fields.Find("messages");
  if (given == nullptr || !given->is_array() || given->empty())
    fields.Fail("messages", "wanted a list with at least one message");
  Json messages = Json::array();
  ImageList list{.most = most_images, .images = images};
  for (size_t i = 0; i < given->size(); ++i)
    messages.push_back(MessageOf((*given)[i], Concat("messages[", i, "]"), list));
  return messages;
}

Json WithArgumentsAsText(Json messages) {
  for (Json& message : messages) {
    if (!message.contains("tool_calls")) continue;
    for (Json& call : message["tool_calls"]) call["function"]["arguments"] = JsonLine(call["function"]["arguments"]);
  }
  return messages;
}

Json ReadTools(Fields& fields) {
  const Json* given = fields.Find("tools");
  if (given == nullptr || (given->is_array() && given->empty())) return nullptr;
  if (!given->is_array() || given->size() > kMostTools) {
    fields.Fail("tools", Concat("wanted a list of at most ", kMostTools, " tools"));
  }
  Json tools = Json::array();
  for (size_t i = 0; i < given->size(); ++i) tools.push_back(ToolOf((*given)[i], Concat("tools[", i, "]")));
  return tools;
}

}  // namespace trireme
