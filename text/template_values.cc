#include "text/template_values.h"

#include <utility>

#include "core/base/error.h"

namespace trireme {

Json ParseTemplateValues(const std::string& key, const std::vector<std::string>& entries) {
  Json values = Json::object();
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw InputError(key, " ", entry, ": wanted NAME=VALUE, such as enable_thinking=false");
    const std::string name = entry.substr(0, equals), value = entry.substr(equals + 1);
    if (name == "messages" || name == "tools" || name == "add_generation_prompt")
      throw InputError(key, " ", entry, ": ", name, " follows from the conversation; leave it out");
    Json parsed = TryParseJson(value);
    values[name] = parsed.is_discarded() ? Json(value) : std::move(parsed);
  }
  return values;
}

}  // namespace trireme
