#include "train/data/samples.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "train/data/messages.h"

namespace trireme {
namespace {

using Names = std::initializer_list<const char*>;

std::string KeysOf(const Json& record) {
  std::string keys;
  for (const auto& [key, _] : record.items()) keys += (keys.empty() ? "" : ", ") + key;
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
std::optional<std::string> Find(const Json& record, Names names) {
  if (Has(record, *names.begin())) return *names.begin();
  std::optional<std::string> found;
  for (const char* name : names) {
    if (!Has(record, name)) continue;
    if (found) {
      throw InputError("has both '", *found, "' and '", name, "'; say which is '", *names.begin(),
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
    const bool low =
        id.get<int64_t>() < 0 && !(std::string_view(key) == "labels" && id.get<int64_t>() == kNotTrained);
    if (low)
      throw InputError(key, " has ", id.dump(), "; wanted a token's id", key[0] == 'l' ? " or -100" : "");
    ids.push_back(static_cast<int32_t>(id.get<int64_t>()));
  }
  return ids;
}

StoredRow ReadTokens(const Json& record) {
  StoredRow row{IdsAt(record, "input_ids"), {}};
  row.labels = Has(record, "labels") ? IdsAt(record, "labels") : row.ids;
  if (row.ids.empty()) throw InputError("the row is empty");
  if (row.ids.size() != row.labels.size()) {
    throw InputError(row.ids.size(), " input_ids and ", row.labels.size(), " labels; wanted as many");
  }
  return row;
}

Json FromQuestion(const Json& record, const std::string& question, const std::string& answer) {
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
  messages.push_back({{"role", "assistant"}, {"content", answer}});
  return messages;
}

// Alpaca's two-part question, or one under any of its names; nothing where the record has no question.
std::optional<std::string> Question(const Json& record) {
  if (Has(record, "instruction") && Has(record, "input")) {
    const std::string instruction = TextAt(record, "instruction"), input = TextAt(record, "input");
    return instruction.empty() || input.empty() ? instruction + input : instruction + "\n" + input;
  }
  const auto name = Find(record, {"query", "prompt", "input", "instruction", "question", "problem"});
  return name ? std::optional(TextAt(record, *name)) : std::nullopt;
}

std::optional<Json> ReadMessages(const Json& record) {
  for (const char* key : {"messages", "conversations", "conversation"}) {
    if (Has(record, key)) return NormalMessages(ParseIfText(record[key], key));
  }
  const auto question = Question(record);
  if (!question) return std::nullopt;
  const auto answer = Find(record, {"response", "answer", "output", "targets", "target", "answer_key",
                                    "answers", "solution", "completion"});
  if (!answer) throw InputError("has a question and no answer: its keys are ", KeysOf(record));
  return FromQuestion(record, *question, TextAt(record, *answer));
}

std::string SystemOf(const Json& record, const SampleOptions& options) {
  const auto name = Find(record, {"system", "system_prompt"});
  return name ? TextAt(record, *name) : options.system;
}

}  // namespace

Sample ReadSample(Json record, const SampleOptions& options) {
  for (const auto& [theirs, ours] : options.columns) {
    if (!record.contains(theirs)) continue;
    Json value = std::move(record[theirs]);
    record.erase(theirs);
    record[ours] = std::move(value);
  }
  RefuseMedia(record);
  if (Has(record, "input_ids")) return ReadTokens(record);
  if (std::optional<Json> messages = ReadMessages(record)) {
    const std::string system = SystemOf(record, options);
    if (!system.empty() && (messages->empty() || (*messages)[0].value("role", "") != "system")) {
      messages->insert(messages->begin(), Json{{"role", "system"}, {"content", system}});
    }
    return Conversation{std::move(*messages),
                        Has(record, "tools") ? ParseIfText(record["tools"], "tools") : Json()};
  }
  if (Has(record, "text")) return PlainText{TextAt(record, "text")};
  throw InputError(
      "is of no known format: its keys are ", KeysOf(record),
      "; wanted messages, conversations, query and response, instruction and output, text, or input_ids; "
      "data.columns renames keys");
}

}  // namespace trireme
