#include "data/tools.h"

#include <string>

#include "core/base/error.h"
#include "data/messages.h"
#include "data/record_fields.h"

namespace trireme {
namespace {

// A function's name, below "function" as in OpenAI's API or at the object's top.
bool HasName(const Json& object) {
  if (!object.is_object()) return false;
  const auto function = object.find("function");
  const Json& named = function != object.end() ? *function : object;
  return named.is_object() && Has(named, "name") && named["name"].is_string() &&
         !named["name"].get_ref<const std::string&>().empty();
}

bool IsEmptyText(const Json& value) { return value.is_string() && value.get_ref<const std::string&>().empty(); }

}  // namespace

Json ToolsIn(const Json& record) {
  if (!Has(record, "tools") || IsEmptyText(record["tools"])) return nullptr;
  Json tools = ParseIfText(record["tools"], "tools");
  if (tools.is_null()) return nullptr;
  if (!tools.is_array()) {
    throw InputError("'tools' is ", tools.dump().substr(0, 60), "; wanted a list of functions, each with its name");
  }
  for (const Json& tool : tools) {
    if (HasName(tool)) continue;
    throw InputError("'tools' has ", tool.dump().substr(0, 60), "; wanted functions, such as {\"type\": \"function\", ",
                     "\"function\": {\"name\": …, \"parameters\": …}}");
  }
  return tools.empty() ? Json() : tools;
}

Json CallsIn(const Json& calls, size_t message) {
  Json list = IsEmptyText(calls) ? Json::array() : ParseIfText(calls, "tool_calls");
  if (!list.is_array()) {
    throw InputError("message ", message, " has the tool_calls ", calls.dump().substr(0, 60),
                     "; wanted a list of calls, each with a name and arguments");
  }
  for (const Json& call : list) {
    if (HasName(call)) continue;
    throw InputError("message ", message, " has the tool call ", call.dump().substr(0, 60),
                     "; wanted an object with a function's name and arguments");
  }
  return list;
}

}  // namespace trireme
