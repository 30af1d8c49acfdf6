#include "data/messages.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "data/image_marks.h"
#include "data/tools.h"

namespace trireme {
namespace {

const std::map<std::string, std::string>& Roles() {
  static const std::map<std::string, std::string> roles = {
      {"system", "system"},      {"developer", "developer"},    {"user", "user"},
      {"human", "user"},         {"assistant", "assistant"},    {"gpt", "assistant"},
      {"bot", "assistant"},      {"model", "assistant"},        {"tool", "tool"},
      {"tool_response", "tool"}, {"function_response", "tool"}, {"observation", "tool"},
      {"observations", "tool"},  {"tool_call", "tool_call"},    {"function_call", "tool_call"}};
  return roles;
}

const Json* FirstOf(const Json& message, const char* one, const char* other) {
  for (const char* key : {one, other}) {
    if (const auto found = message.find(key); found != message.end()) return &*found;
  }
  return nullptr;
}

// A tool call in a separate message: its content is JSON with a name and arguments.
Json CallOf(const Json& content) {
  Json call = ParseIfText(content, "a tool call");
  if (!call.is_object() || !call.contains("name")) {
    throw InputError("a tool call is ", content.dump().substr(0, 60), "; wanted an object with name and arguments");
  }
  return {{"type", "function"}, {"function", std::move(call)}};
}

// The content's parts, of which at least one is an image, with texts as parts, too.
Json PartsOfContent(const Json& content, size_t message) {
  Json parts = Json::array();
  for (const Json& part : content) {
    if (part.is_string()) {
      parts.push_back({{"type", "text"}, {"text", part}});
    } else if (IsImagePart(part) || (part.is_object() && part.contains("text") && part["text"].is_string())) {
      parts.push_back(part);
    } else {
      throw InputError("message ", message,
                       " has a part that is neither text nor an image: ", part.dump().substr(0, 60),
                       "; audio and video are not supported yet");
    }
  }
  return parts;
}

// The text parts of a content joined; other kinds of parts are input errors.
Json TextOfContent(const Json& content, size_t message, bool images) {
  if (content.is_null()) return "";
  if (!content.is_array()) return content;
  if (images && std::any_of(content.begin(), content.end(), IsImagePart)) return PartsOfContent(content, message);
  std::string text;
  for (const Json& part : content) {
    const bool is_text = part.is_object() && (!part.contains("type") || part["type"] == "text");
    const auto said = part.is_object() ? part.find("text") : part.end();
    if (part.is_string()) {
      text += part.get_ref<const std::string&>();
    } else if (is_text && said != part.end() && said->is_string()) {
      text += said->get_ref<const std::string&>();
    } else {
      throw InputError("message ", message, " has a part that is not text: ", part.dump().substr(0, 60),
                       "; images need a model that sees, audio and video are not supported yet");
    }
  }
  return text;
}

bool HasCalls(const Json& message) {
  const auto calls = message.find("tool_calls");
  return calls != message.end() && !calls->is_null();
}

// Whether it asks for training, as an assistant's message may. One that says false or 0 asks for what happens anyway.
bool AsksForLoss(const Json& message) {
  for (const char* key : {"loss", "loss_scale"}) {
    const auto found = message.find(key);
    if (found != message.end() && !found->is_null() && *found != false && *found != 0) return true;
  }
  return false;
}

void RefuseLoss(const Json& message, const std::string& role, size_t number) {
  if (role == "assistant" || !AsksForLoss(message)) return;
  throw InputError("message ", number, " has the role ", role,
                   " and a loss; only the assistant's messages are trained: ",
                   role == "tool_call" ? "write the call as tool_calls of an assistant's message with that loss"
                                       : "remove the key, or set data.loss to all");
}

void AddMessage(Json& messages, const Json& message, const std::string& role, const Json& content, bool images) {
  if (role == "tool_call") {
    const bool follows = !messages.empty() && messages.back().value("role", "") == "assistant";
    if (!follows) messages.push_back({{"role", "assistant"}, {"content", ""}});
    messages.back()["tool_calls"].push_back(CallOf(content));
    return;
  }
  // Some templates recognise calls by a null content.
  const bool only_calls = content.is_null() && HasCalls(message);
  const Json text = only_calls ? content : TextOfContent(content, messages.size() + 1, images);
  if (!text.is_string() && !text.is_array() && !only_calls) {
    throw InputError("message ", messages.size() + 1, " has the content ", content.dump().substr(0, 60),
                     "; wanted a string");
  }
  RefuseMedia(message);
  const Json calls = HasCalls(message) ? CallsIn(message["tool_calls"], messages.size() + 1) : Json::array();
  if (!calls.empty() && role != "assistant") {
    throw InputError("message ", messages.size() + 1, " has the role ", role,
                     " and tool_calls; only the assistant calls tools: remove the key");
  }
  Json normal = {{"role", role}, {"content", text}};
  for (const auto& [key, value] : message.items()) {
    const bool copied = key == "role" || key == "content" || key == "from" || key == "value";
    if (copied || value.is_null()) continue;  // tables have a null where other messages have a value
    normal[key] = key == "tool_calls" ? calls : value;
  }
  messages.push_back(std::move(normal));
}

// {"human": …, "assistant": …}: a whole round in one object.
bool AddPair(Json& messages, const Json& message, bool images) {
  const Json* asked = FirstOf(message, "human", "user");
  if (asked == nullptr || !message.contains("assistant")) return false;
  AddMessage(messages, Json::object(), "user", *asked, images);
  AddMessage(messages, Json::object(), "assistant", message["assistant"], images);
  return true;
}

}  // namespace

void RefuseMedia(const Json& object, bool images) {
  for (const std::string key : {"images", "image", "videos", "video", "audios", "audio"}) {
    if (images && key.starts_with("image")) continue;
    const auto found = object.find(key);
    if (found == object.end() || found->is_null() || found->empty() || *found == "" || *found == "[]") continue;
    throw InputError(
        "has '", key, "', which would be lost: ",
        key.starts_with("image") ? "images need a model that sees" : "audio and video are not supported yet",
        "; remove such records, set data.on_error to skip, or drop the key with data.columns: [", key, "=unused]");
  }
}

void RefuseGrounding(const Json& record) {
  const auto objects = record.find("objects");
  if (objects == record.end()) return;
  const Json grounding = objects->is_string() ? TryParseJson(objects->get_ref<const std::string&>()) : *objects;
  const auto has = [&](const char* key) { return grounding.contains(key) && !grounding[key].empty(); };
  if (!grounding.is_object() || !(has("bbox") || has("ref"))) return;
  throw InputError(
      "has 'objects', boxes and references for <bbox> and <ref-object>, which are not supported and would stay in the ",
      "text; remove the key, or drop it with data.columns: [objects=unused]");
}

void RefuseUnusedColumns(const Json& record) {
  RefuseGrounding(record);
  const auto channel = record.find("channel");
  if (channel == record.end() || !channel->is_string() || channel->get_ref<const std::string&>().empty()) return;
  throw InputError("has 'channel', whose loss is to be told apart, which is not supported; remove the key, or drop it ",
                   "with data.columns: [channel=unused]");
}

Json ParseIfText(const Json& value, const std::string& key) {
  if (!value.is_string()) return value;
  Json parsed = TryParseJson(value.get_ref<const std::string&>());
  if (parsed.is_discarded()) {
    throw InputError("'", key, "' is a string that is not JSON: ", value.get_ref<const std::string&>().substr(0, 60));
  }
  return parsed;
}

Json NormalMessages(const Json& list, bool images) {
  if (!list.is_array() || list.empty())
    throw InputError("its messages are ", list.dump().substr(0, 60), "; wanted a list with at least one");
  Json messages = Json::array();
  for (const Json& message : list) {
    if (!message.is_object()) throw InputError("has the message ", message.dump().substr(0, 60), "; wanted an object");
    if (AddPair(messages, message, images)) continue;
    const Json* role = FirstOf(message, "role", "from");
    const Json* content = FirstOf(message, "content", "value");
    if (role == nullptr || !role->is_string() || (content == nullptr && !HasCalls(message))) {
      throw InputError("has the message ", message.dump().substr(0, 60), "; wanted a role and a content");
    }
    const auto known = Roles().find(role->get<std::string>());
    if (known == Roles().end()) {
      throw InputError("has a message of the role ", role->dump(), "; wanted system, user, assistant or tool");
    }
    RefuseLoss(message, known->second, messages.size() + 1);
    AddMessage(messages, message, known->second, content != nullptr ? *content : Json(), images);
  }
  return messages;
}

}  // namespace trireme
