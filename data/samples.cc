#include "data/samples.h"

#include <optional>

#include "core/base/error.h"
#include "data/image_marks.h"
#include "data/messages.h"
#include "data/record_fields.h"
#include "data/row_keys.h"
#include "data/tools.h"

namespace trireme {
namespace {

StoredRow ReadTokens(const Json& record) {
  StoredRow row{IdsAt(record, "input_ids"), {}};
  row.labels = Has(record, "labels") ? IdsAt(record, "labels") : row.ids;
  if (row.ids.empty()) throw InputError("the row is empty");
  if (row.ids.size() != row.labels.size()) {
    throw InputError(row.ids.size(), " input_ids and ", row.labels.size(), " labels; wanted equally many");
  }
  RefuseModelInputs(record, row.ids.size());
  for (const char* key : {"weights", "loss_scale"}) {
    if (Has(record, key)) row.weights = WeightsAt(record, key, row.ids.size());
  }
  for (size_t i = 0; i < row.weights.size(); ++i) {
    if (row.weights[i] == 0) row.labels[i] = static_cast<int32_t>(kNotTrained);
  }
  return row;
}

// TRL's conversational prompt and completion, of which the completion alone is trained.
Json PromptAndCompletion(const Json& record, bool images) {
  Json messages = NormalMessages(record["prompt"], images);
  for (Json& message : messages) {
    if (message["role"] == "assistant" && !Has(message, "loss")) message["loss"] = false;
  }
  const Json& completion = record["completion"];
  for (Json& message : NormalMessages(completion.is_object() ? Json::array({completion}) : completion, images)) {
    messages.push_back(std::move(message));
  }
  return messages;
}

std::optional<Json> ReadMessages(const Json& record, bool images) {
  for (const char* key : {"messages", "conversations", "conversation"}) {
    if (Has(record, key)) return NormalMessages(ParseIfText(record[key], key), images);
  }
  if (Has(record, "prompt") && record["prompt"].is_array() && Has(record, "completion")) {
    return PromptAndCompletion(record, images);
  }
  const auto question = Question(record);
  if (!question) return std::nullopt;
  const auto answer = FindField(
      record, {"response", "answer", "output", "targets", "target", "answer_key", "answers", "solution", "completion"});
  if (!answer) throw InputError("has a question but no answer: its keys are ", KeysOf(record));
  Json messages = QuestionMessages(record, *question);
  messages.push_back({{"role", "assistant"}, {"content", TextAt(record, *answer)}});
  return messages;
}

}  // namespace

Sample ReadSample(Json record, const SampleOptions& options) {
  RenameColumns(record, options.columns);
  RefuseMedia(record, options.images);
  RefuseUnusedColumns(record);
  if (Has(record, "input_ids")) {
    StoredRow row = ReadTokens(record);
    if (options.images) {
      for (const std::string& source : ListedImages(record)) row.images.push_back({.source = source});
    }
    return row;
  }
  if (std::optional<Json> messages = ReadMessages(record, options.images)) {
    AddSystem(*messages, record, options.system);
    ReplaceTexts(*messages, options.replace);
    Conversation sample{std::move(*messages), ToolsIn(record), TemplateVariables(record)};
    if (options.images) sample.images = PlaceImages(sample.messages, ListedImages(record));
    return sample;
  }
  if (Has(record, "text")) {
    if (options.images && !ListedImages(record).empty()) {
      throw InputError("has images beside text; images stand in messages or in rows of input_ids (docs/vision.md)");
    }
    Json text = TextAt(record, "text");
    ReplaceTexts(text, options.replace);
    return PlainText{text.get<std::string>()};
  }
  throw InputError("has no known format: its keys are ", KeysOf(record),
                   "; wanted messages, conversations, query and response, instruction and output, text, or input_ids; "
                   "data.columns renames keys");
}

}  // namespace trireme
