#include "data/record_fields.h"

#include <limits>
#include <string_view>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config.pb.h"
#include "data/messages.h"
#include "parallel/graph/specs.h"
#include "text/template_values.h"

namespace trireme {

std::string KeysOf(const Json& record) {
  const std::string keys = Join(record.items(), ", ", [](const auto& item) { return item.key(); });
  return keys.empty() ? "none" : keys;
}

bool Has(const Json& record, const char* key) {
  const auto found = record.find(key);
  return found != record.end() && !found->is_null();
}

std::string TextAt(const Json& record, const std::string& key) {
  const Json& value = record[key];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return value.dump();
  throw InputError("'", key, "' is ", value.dump().substr(0, 60), "; wanted a text");
}

// The first name where it is there, otherwise the only one of the others that is. Two of them are two too
// many.
std::optional<std::string> FindField(const Json& record, FieldNames names) {
  if (Has(record, *names.begin())) return *names.begin();
  std::optional<std::string> found;
  for (const char* name : names) {
    if (!Has(record, name)) continue;
    if (found) {
      throw InputError("has both '", *found, "' and '", name, "'; choose which one is '", *names.begin(),
                       "' with data.columns: [", name, "=", *names.begin(), "]");
    }
    found = name;
  }
  return found;
}

std::vector<int32_t> IdsAt(const Json& record, const char* key) {
  const Json& list = record[key];
  if (!list.is_array()) throw InputError("wanted a list '", key, "'");
  std::vector<int32_t> ids;
  for (const Json& id : list) {
    const bool fits = id.is_number_integer() && id.get<int64_t>() <= std::numeric_limits<int32_t>::max();
    if (!fits) throw InputError(key, " has ", id.dump(), "; wanted whole numbers");
    const bool low = id.get<int64_t>() < 0 && !(std::string_view(key) == "labels" && id.get<int64_t>() == kNotTrained);
    if (low) throw InputError(key, " has ", id.dump(), "; wanted a token's id", key[0] == 'l' ? " or -100" : "");
    ids.push_back(static_cast<int32_t>(id.get<int64_t>()));
  }
  return ids;
}

std::vector<float> WeightsAt(const Json& record, const char* key, size_t labels) {
  const Json& list = record[key];
  if (!list.is_array() || list.size() != labels) {
    throw InputError(key, " is ", list.dump().substr(0, 60), "; wanted a list of ", labels, " numbers, one per label");
  }
  std::vector<float> weights;
  for (const Json& weight : list) {
    const double value = weight.is_number() ? weight.get<double>() : -1;
    if (!(value >= 0 && value <= std::numeric_limits<float>::max())) {
      throw InputError(key, " has ", weight.dump(), "; wanted numbers of at least 0");
    }
    weights.push_back(static_cast<float>(value));
  }
  return weights;
}

Json QuestionMessages(const Json& record, const std::string& question) {
  Json messages = Json::array();
  if (Has(record, "history")) {
    const Json history = ParseIfText(record["history"], "history");
    for (const Json& pair : history) {
      if (!pair.is_array() || pair.size() != 2)
        throw InputError("history has ", pair.dump().substr(0, 60), "; wanted pairs");
      messages.push_back({{"role", "user"}, {"content", pair[0]}});
      messages.push_back({{"role", "assistant"}, {"content", pair[1]}});
    }
  }
  messages.push_back({{"role", "user"}, {"content", question}});
  return messages;
}

// Alpaca's two-part question, or one under any of its names; nothing where the record has no question.
std::optional<std::string> Question(const Json& record) {
  if (Has(record, "instruction") && Has(record, "input")) {
    const std::string instruction = TextAt(record, "instruction"), input = TextAt(record, "input");
    return instruction.empty() || input.empty() ? instruction + input : instruction + "\n" + input;
  }
  const auto name = FindField(record, {"query", "prompt", "input", "instruction", "question", "problem"});
  return name ? std::optional(TextAt(record, *name)) : std::nullopt;
}

void AddSystem(Json& messages, const Json& record, const std::string& otherwise) {
  const auto name = FindField(record, {"system", "system_prompt"});
  const std::string system = name ? TextAt(record, *name) : otherwise;
  if (system.empty() || (!messages.empty() && messages[0].value("role", "") == "system")) return;
  messages.insert(messages.begin(), Json{{"role", "system"}, {"content", system}});
}

Json TemplateVariables(const Json& record) {
  Json variables = Json::object();
  if (Has(record, "chat_template_kwargs")) {
    variables = ParseIfText(record["chat_template_kwargs"], "chat_template_kwargs");
    if (!variables.is_object()) {
      throw InputError("'chat_template_kwargs' is ", variables.dump().substr(0, 60),
                       "; wanted an object of the chat template's variables");
    }
  }
  if (!Has(record, "enable_thinking")) return variables;
  if (!record["enable_thinking"].is_boolean()) {
    throw InputError("'enable_thinking' is ", record["enable_thinking"].dump().substr(0, 60), "; wanted true or false");
  }
  variables["enable_thinking"] = record["enable_thinking"];
  return variables;
}

Json TemplateValuesOf(const DataConfig& data) {
  return ParseTemplateValues("data.template_values", {data.template_values().begin(), data.template_values().end()});
}

std::map<std::string, std::string> RenamedColumns(const DataConfig& data) {
  std::map<std::string, std::string> columns;
  for (const std::string& entry : data.columns()) {
    const size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == entry.size()) {
      throw InputError("data.columns has '", entry, "'; wanted theirs=ours, such as question=query");
    }
    columns[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return columns;
}

ReplacedTexts ReplacedTextsOf(const DataConfig& data) {
  ReplacedTexts texts;
  for (const std::string& entry : data.replace()) {
    const size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw InputError("data.replace has '", entry, "'; wanted NAME=TEXT, such as {{NAME}}=Trireme");
    }
    texts.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return texts;
}

void ReplaceTexts(Json& value, const ReplacedTexts& texts) {
  if (texts.empty()) return;
  if (value.is_object()) {
    for (auto& [key, inner] : value.items()) {
      if (key != "role") ReplaceTexts(inner, texts);
    }
  }
  if (value.is_array()) {
    for (Json& inner : value) ReplaceTexts(inner, texts);
  }
  if (!value.is_string()) return;
  auto& text = value.get_ref<std::string&>();
  for (const auto& [name, other] : texts) {
    for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + other.size())) {
      text.replace(at, name.size(), other);
    }
  }
}

namespace {

// What "extra_info.answer" names: extra_info may be an object, or its JSON as a text. Null if it is not there.
const Json* FindWithin(Json& record, const std::string& path) {
  const size_t dot = path.find('.');
  if (dot == std::string::npos) {
    const auto found = record.find(path);
    return found == record.end() ? nullptr : &*found;
  }
  const auto outer = record.find(path.substr(0, dot));
  if (outer == record.end()) return nullptr;
  if (outer->is_string()) {
    Json parsed = TryParseJson(outer->get<std::string>());
    if (parsed.is_object()) *outer = std::move(parsed);
  }
  return outer->is_object() ? FindWithin(*outer, path.substr(dot + 1)) : nullptr;
}

}  // namespace

void RenameColumns(Json& record, const std::map<std::string, std::string>& columns) {
  for (const auto& [theirs, ours] : columns) {
    if (record.contains(theirs)) {
      Json value = std::move(record[theirs]);
      record.erase(theirs);
      record[ours] = std::move(value);
    } else if (const Json* inner = FindWithin(record, theirs); inner != nullptr) {
      Json value = *inner;  // what it lies in stays whole, for others that read it
      record[ours] = std::move(value);
    }
  }
}

}  // namespace trireme
