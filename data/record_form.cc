#include "data/record_form.h"

#include <array>
#include <utility>

#include "core/base/error.h"
#include "data/messages.h"
#include "data/record_fields.h"

namespace trireme {
namespace {

bool HasColumn(const Json& record, const std::string& column) { return !column.empty() && Has(record, column.c_str()); }

// A text that is not empty.
bool HasText(const Json& record, const std::string& column) {
  return HasColumn(record, column) && record[column] != "";
}

Json Message(const char* role, Json content) { return {{"role", role}, {"content", std::move(content)}}; }

// What both formats may have beside their messages.
void AddCommon(const Json& record, const RecordForm& form, Json& formed) {
  const std::array<std::pair<const std::string*, const char*>, 5> columns = {{{&form.system, "system"},
                                                                              {&form.tools, "tools"},
                                                                              {&form.images, "images"},
                                                                              {&form.videos, "videos"},
                                                                              {&form.audios, "audios"}}};
  for (const auto& [column, name] : columns) {
    if (HasText(record, *column)) formed[name] = record[*column];
  }
}

std::string PromptOf(const Json& record, const RecordForm& form) {
  std::string prompt;
  for (const std::string* column : {&form.prompt, &form.query}) {
    if (!HasText(record, *column)) continue;
    if (!prompt.empty()) prompt += "\n";
    prompt += TextAt(record, *column);
  }
  return prompt;
}

Json ReadAlpaca(const Json& record, const RecordForm& form) {
  const std::string prompt = PromptOf(record, form);
  const bool answered = HasColumn(record, form.response);
  if (form.plain_text && !answered) return {{"text", prompt}};
  if (form.plain_text) {
    throw InputError("has a response ('", form.response,
                     "'), which stage pt does not train; set stage: sft, or name only the ",
                     "text's column in its entry: \"columns\": {\"prompt\": \"", form.prompt, "\"}");
  }
  Json past = Json::object();
  if (HasColumn(record, form.history) && record[form.history].is_array()) past["history"] = record[form.history];
  Json formed = {{"messages", QuestionMessages(past, prompt)}};
  AddCommon(record, form, formed);
  if (HasColumn(record, form.kto_tag)) formed["kto_tag"] = record[form.kto_tag];
  if (form.ranking && HasColumn(record, form.chosen) && HasColumn(record, form.rejected)) {
    formed["chosen"] = record[form.chosen];
    formed["rejected"] = record[form.rejected];
  } else if (answered) {
    formed["messages"].push_back(Message("assistant", TextAt(record, form.response)));
  }
  return formed;
}

// Messages in the form's own words.
class Conversations {
 public:
  explicit Conversations(const RecordForm& form) : form_(form) {}

  Json Read(const Json& record) const {
    if (!HasColumn(record, form_.messages)) {
      throw InputError("has no '", form_.messages, "': its keys are ", KeysOf(record),
                       "; name the column of its messages in ", "its entry: \"columns\": {\"messages\": …}");
    }
    const Json list = ParseIfText(record[form_.messages], form_.messages);
    if (!list.is_array()) throw InputError("'", form_.messages, "' is ", list.dump().substr(0, 60), "; wanted a list");
    const bool pair = form_.ranking && HasColumn(record, form_.chosen) && HasColumn(record, form_.rejected);
    Json formed = {{"messages", All(list, pair)}};
    AddCommon(record, form_, formed);
    if (formed["messages"][0]["role"] == "system") formed.erase("system");  // it comes first
    if (HasColumn(record, form_.kto_tag)) formed["kto_tag"] = record[form_.kto_tag];
    if (pair) {
      formed["chosen"] = Answer(record, form_.chosen);
      formed["rejected"] = Answer(record, form_.rejected);
    }
    return formed;
  }

 private:
  // After a system message questions and answers alternate; all but the prompt of a pair end with an answer.
  Json All(const Json& list, bool pair) const {
    Json messages = Json::array();
    size_t system = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string tag = TagOf(list[i], i);
      if (i == 0 && !tag.empty() && tag == form_.system_tag) {
        messages.push_back(Message("system", ContentOf(list[i], i)));
        system = 1;
        continue;
      }
      Add(messages, list[i], tag, i, (i - system) % 2 == 1);
    }
    const size_t turns = list.size() - system;
    if (turns % 2 == (pair ? 1 : 0) && turns > 0) return messages;
    throw InputError("has ", turns, " messages beside the system's; wanted ", pair ? "an odd" : "an even", " number: ",
                     pair ? "a question before the chosen and the rejected answer" : "each question with its answer");
  }

  void Add(Json& messages, const Json& message, const std::string& tag, size_t index, bool answers) const {
    const auto is = [&](const std::string& known) { return !known.empty() && tag == known; };
    const bool asks = is(form_.user_tag) || is(form_.observation_tag);
    const bool fits = answers ? is(form_.assistant_tag) || is(form_.function_tag) : asks;
    if (!fits) {
      throw InputError(
          "message ", index + 1, " is by '", tag, "'; wanted ",
          answers ? Words(form_.assistant_tag, form_.function_tag) : Words(form_.user_tag, form_.observation_tag),
          " there, as its tags in dataset_info.json say");
    }
    if (is(form_.function_tag)) return AddCalls(messages, ContentOf(message, index));
    Json normal = Message(asks ? (is(form_.user_tag) ? "user" : "tool") : "assistant", ContentOf(message, index));
    for (const auto& [key, value] : message.items()) {
      if (key != form_.role_tag && key != form_.content_tag && !normal.contains(key)) normal[key] = value;
    }
    messages.push_back(std::move(normal));
  }

  // One call, or a list of them.
  static void AddCalls(Json& messages, const Json& content) {
    const Json calls = ParseIfText(content, "a tool call");
    if (!calls.is_array()) return messages.push_back(Message("tool_call", calls));
    for (const Json& call : calls) messages.push_back(Message("tool_call", call));
  }

  Json Answer(const Json& record, const std::string& column) const {
    const Json& message = record[column];
    if (!message.is_object()) {
      throw InputError("'", column, "' is ", message.dump().substr(0, 60), "; wanted one message with '",
                       form_.role_tag, "' and '", form_.content_tag, "'");
    }
    Json answer = Json::array();
    Add(answer, message, TagOf(message, 0), 0, /*answers=*/true);
    return answer;
  }

  std::string TagOf(const Json& message, size_t index) const {
    if (message.is_object() && Has(message, form_.role_tag.c_str()) && message[form_.role_tag].is_string()) {
      return message[form_.role_tag].get<std::string>();
    }
    throw InputError("message ", index + 1, " is ", message.dump().substr(0, 60), "; wanted its role under '",
                     form_.role_tag, "'");
  }

  Json ContentOf(const Json& message, size_t index) const {
    if (message.contains(form_.content_tag)) return message[form_.content_tag];
    throw InputError("message ", index + 1, " is ", message.dump().substr(0, 60), "; wanted its content under '",
                     form_.content_tag, "'");
  }

  static std::string Words(const std::string& one, const std::string& other) {
    return other.empty() ? Concat("'", one, "'") : Concat("'", one, "' or '", other, "'");
  }

  const RecordForm& form_;
};

}  // namespace

Json ReadFormed(const Json& record, const RecordForm& form) {
  return form.conversations ? Conversations(form).Read(record) : ReadAlpaca(record, form);
}

}  // namespace trireme
