#include "data/answer_samples.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "data/answer_images.h"
#include "data/image_marks.h"
#include "data/messages.h"
#include "data/record_fields.h"
#include "data/tools.h"
#include "stages/preference_check.h"

namespace trireme {
namespace {

const char* const kSides[] = {"chosen", "rejected"};

Json Assistant(const std::string& text) { return Json::array({{{"role", "assistant"}, {"content", text}}}); }

// An answer as messages: a list of them, a single one, or the text of one.
Json AnswerMessages(const Json& value, const std::string& key, bool images) {
  if (value.is_string()) {
    const Json parsed =
        value.get_ref<const std::string&>().starts_with("[{") ? TryParseJson(value.get<std::string>()) : Json();
    if (!parsed.is_array()) return Assistant(value.get<std::string>());
    return NormalMessages(parsed, images);
  }
  if (value.is_object()) return NormalMessages(Json::array({value}), images);
  if (value.is_array() && value.empty()) throw InputError("the ", key, " answer is empty");
  if (value.is_array()) return NormalMessages(value, images);
  throw InputError("'", key, "' is ", value.dump().substr(0, 60), "; wanted a text or messages");
}

bool IsConversation(const Json& value) { return value.is_array() || value.is_object(); }

// How many of the messages are the prompt: all up to the last one of a user or a tool.
size_t PromptLength(const Json& messages) {
  size_t length = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string role = messages[i].value("role", "");
    if (role == "user" || role == "tool") length = i + 1;
  }
  return length;
}

Json Slice(const Json& messages, size_t begin, size_t end) {
  Json slice = Json::array();
  for (size_t i = begin; i < end; ++i) slice.push_back(messages[i]);
  return slice;
}

std::optional<Json> Messages(const Json& record, bool images) {
  for (const char* key : {"messages", "conversations", "conversation"}) {
    if (Has(record, key)) return NormalMessages(ParseIfText(record[key], key), images);
  }
  return std::nullopt;
}

struct PromptAndAnswers {
  Json prompt;
  std::vector<Json> answers;
};

// ms-swift: the conversation ends with the chosen answer, and the rejected one stands beside it.
PromptAndAnswers FromMessages(const Json& record, const Json& messages, bool images) {
  const size_t prompt = PromptLength(messages);
  Json rejected;
  if (Has(record, "rejected_messages")) {
    const Json other = NormalMessages(ParseIfText(record["rejected_messages"], "rejected_messages"), images);
    const size_t length = PromptLength(other);
    if (Slice(other, 0, length) != Slice(messages, 0, prompt)) {
      throw InputError(
          "messages and rejected_messages have different prompts; wanted the same up to the last question");
    }
    rejected = Slice(other, length, other.size());
  } else {
    rejected = AnswerMessages(record["rejected_response"], "rejected_response", images);
  }
  return {Slice(messages, 0, prompt), {Slice(messages, prompt, messages.size()), std::move(rejected)}};
}

// Characters of UTF-8 that follow in the same code point.
bool Continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// TRL's rule for prompts that stand in both answers: their common beginning, without a blank at its end; of answers of
// which one begins the other, all but the last element of the shorter.
size_t CommonText(const std::string& a, const std::string& b) {
  const size_t shorter = std::min(a.size(), b.size());
  size_t common = 0;
  while (common < shorter && a[common] == b[common]) ++common;
  const bool one_begins_the_other = common == shorter;
  if (one_begins_the_other && common > 0) --common;
  while (common > 0 && common < a.size() && Continues(a[common])) --common;
  if (!one_begins_the_other && common > 0 && a[common - 1] == ' ') --common;
  return common;
}

PromptAndAnswers FromBoth(const Json& record, bool images) {
  if (!IsConversation(record["chosen"])) {
    const std::string chosen = TextAt(record, "chosen"), rejected = TextAt(record, "rejected");
    const size_t common = CommonText(chosen, rejected);
    return {chosen.substr(0, common), {chosen.substr(common), rejected.substr(common)}};
  }
  const Json chosen = AnswerMessages(record["chosen"], "chosen", images),
             rejected = AnswerMessages(record["rejected"], "rejected", images);
  const size_t shorter = std::min(chosen.size(), rejected.size());
  size_t common = 0;
  while (common < shorter && chosen[common] == rejected[common]) ++common;
  if (common == shorter && common > 0) --common;
  return {Slice(chosen, 0, common), {Slice(chosen, common, chosen.size()), Slice(rejected, common, rejected.size())}};
}

bool IsPair(const Json& record) {
  return Has(record, "rejected") || Has(record, "rejected_response") || Has(record, "rejected_messages");
}

// Without a stage: what is to be scored.
[[noreturn]] void RefuseUnknown(const Json& record, const StageFacts* facts) {
  if (facts == nullptr) {
    throw InputError("is nothing to score: its keys are ", KeysOf(record), "; wanted messages; prompt and completion; ",
                     "a pair; or input_ids; data.columns renames keys");
  }
  const char* wanted = facts->records == Records::kPairs
                           ? "prompt, chosen and rejected; messages and rejected_response or rejected_messages; "
                             "instruction, chosen and rejected; or prompt_ids, chosen_ids and rejected_ids"
                           : "prompt, completion and label; messages and label; a conversation and kto_tag; a pair; or "
                             "prompt_ids, completion_ids and label";
  throw InputError("not a record for stage ", facts->name, ": it has the keys ", KeysOf(record), "; expected ", wanted,
                   "; rename keys with data.columns");
}

PromptAndAnswers ReadPair(const Json& record, const StageFacts* facts, bool images) {
  const bool sides = Has(record, "chosen") && Has(record, "rejected");
  if (const std::optional<Json> messages = Messages(record, images)) {
    if (Has(record, "rejected_response") || Has(record, "rejected_messages"))
      return FromMessages(record, *messages, images);
    if (!sides) RefuseUnknown(record, facts);
    return {
        *messages,
        {AnswerMessages(record["chosen"], "chosen", images), AnswerMessages(record["rejected"], "rejected", images)}};
  }
  if (!sides) RefuseUnknown(record, facts);
  const bool conversation = IsConversation(record["chosen"]);
  if (conversation && Has(record, "prompt") && IsConversation(record["prompt"])) {
    return {
        NormalMessages(record["prompt"], images),
        {AnswerMessages(record["chosen"], "chosen", images), AnswerMessages(record["rejected"], "rejected", images)}};
  }
  if (!conversation && Has(record, "prompt")) {  // plain text, without a template
    return {TextAt(record, "prompt"), {TextAt(record, "chosen"), TextAt(record, "rejected")}};
  }
  const std::optional<std::string> question = Has(record, "prompt") ? std::nullopt : Question(record);
  if (!question) return FromBoth(record, images);
  return {QuestionMessages(record, *question),
          {AnswerMessages(record["chosen"], "chosen", images), AnswerMessages(record["rejected"], "rejected", images)}};
}

PromptAndAnswers ReadSingle(const Json& record, const StageFacts* facts, bool images) {
  if (const std::optional<Json> messages = Messages(record, images)) {
    const size_t prompt = PromptLength(*messages);
    return {Slice(*messages, 0, prompt), {Slice(*messages, prompt, messages->size())}};
  }
  if (Has(record, "prompt") && Has(record, "completion")) {
    if (!IsConversation(record["prompt"])) return {TextAt(record, "prompt"), {TextAt(record, "completion")}};
    return {NormalMessages(record["prompt"], images), {AnswerMessages(record["completion"], "completion", images)}};
  }
  const std::optional<std::string> question = Question(record);
  const auto answer = FindField(record, {"response", "answer", "output", "completion"});
  if (!question || !answer) RefuseUnknown(record, facts);
  return {QuestionMessages(record, *question), {Assistant(TextAt(record, *answer))}};
}

float LabelOf(const Json& record) {
  const char* key = Has(record, "kto_tag") ? "kto_tag" : "label";
  if (!Has(record, key)) throw InputError("has no label; wanted label (or kto_tag): true or false");
  const Json& label = record[key];
  if (label.is_boolean()) return label.get<bool>() ? 1 : 0;
  if (label == 0 || label == 1) return label.get<float>();
  throw InputError("'", key, "' is ", label.dump().substr(0, 60), "; wanted true or false");
}

float MarginOf(const Json& record) {
  if (!Has(record, "margin")) return 0;
  const Json& margin = record["margin"];
  if (margin.is_number() && std::isfinite(margin.get<float>())) return margin.get<float>();
  throw InputError("'margin' is ", margin.dump().substr(0, 60), "; wanted a number");
}

std::vector<float> ValuesOf(const Json& record, const StageFacts& facts, bool pair) {
  if (facts.records == Records::kPairs) return {MarginOf(record), MarginOf(record)};
  return pair ? std::vector<float>{1, 0} : std::vector<float>{LabelOf(record)};
}

bool IsEmpty(const Json& answer) {
  if (answer.is_string()) return answer.get_ref<const std::string&>().empty();
  return std::ranges::all_of(answer, [](const Json& message) {
    const auto content = message.find("content");
    const bool nothing = content == message.end() || content->is_null() || *content == "";
    return nothing && !message.contains("tool_calls");
  });
}

void RefuseEmpty(const std::vector<Json>& answers) {
  for (size_t i = 0; i < answers.size(); ++i) {
    if (IsEmpty(answers[i])) throw InputError("the ", answers.size() > 1 ? kSides[i] : "only", " answer is empty");
  }
}

void CheckAnswers(const std::vector<Json>& answers) {
  RefuseEmpty(answers);
  if (answers.size() == 2 && answers[0] == answers[1]) {
    throw InputError("both answers are equal, so that neither can be preferred");
  }
}

// A message's own loss may say what happens anyway: answers are trained as a whole, nothing of a prompt is (but orpo's,
// whose likelihood can be part of the loss).
void RefuseOwnLoss(const Json& messages, bool trained, const StageFacts& facts) {
  if (!messages.is_array()) return;
  const auto happens_anyway = [&](const Json& loss) {
    return trained ? loss == true || loss == 1 : !CanLearnPrompt(facts) && (loss == false || loss == 0);
  };
  for (const Json& message : messages) {
    for (const char* key : {"loss", "loss_scale"}) {
      if (!Has(message, key)) continue;
      if (happens_anyway(message[key])) continue;
      throw InputError("a message of the ", trained ? "answer" : "prompt", " has \"", key,
                       "\": ", message[key].dump().substr(0, 60), "; stage ", facts.name,
                       " compares whole answers, so that messages have no weights of their own; remove the key");
    }
  }
}

void RefuseOwnLosses(const PromptAndAnswers& found, const StageFacts& facts) {
  RefuseOwnLoss(found.prompt, /*trained=*/false, facts);
  for (const Json& answer : found.answers) RefuseOwnLoss(answer, /*trained=*/true, facts);
}

// Weights of tokens, which records of stage sft may have.
void RefuseWeights(const Json& record, const StageFacts& facts) {
  for (const char* key : {"weights", "loss_scale"}) {
    if (!Has(record, key)) continue;
    throw InputError("has '", key, "'; stage ", facts.name, " weighs all tokens of an answer alike; remove the key");
  }
}

TokenAnswers ReadTokenAnswers(const Json& record, const StageFacts& facts) {
  const bool pair = Has(record, "chosen_ids");
  RefuseWeights(record, facts);
  TokenAnswers tokens;
  if (Has(record, "prompt_ids")) tokens.prompt = IdsAt(record, "prompt_ids");
  if (pair) {
    if (!Has(record, "rejected_ids")) throw InputError("has chosen_ids and no rejected_ids");
    tokens.answers = {IdsAt(record, "chosen_ids"), IdsAt(record, "rejected_ids")};
  } else {
    tokens.answers = {IdsAt(record, "completion_ids")};
  }
  tokens.values = ValuesOf(record, facts, pair);
  for (size_t i = 0; i < tokens.answers.size(); ++i) {
    if (tokens.answers[i].empty()) throw InputError("the ", pair ? kSides[i] : "only", " answer is empty");
  }
  if (pair && tokens.answers[0] == tokens.answers[1]) {
    throw InputError("both answers are equal, so that neither can be preferred");
  }
  return tokens;
}

// The tokens of a text that is to be scored, or of both sides of a pair.
TokenAnswers ReadScoredTokens(const Json& record) {
  TokenAnswers tokens;
  if (Has(record, "prompt_ids")) tokens.prompt = IdsAt(record, "prompt_ids");
  for (const char* key : {"input_ids", "completion_ids", "chosen_ids", "rejected_ids"}) {
    if (!Has(record, key)) continue;
    tokens.answers.push_back(IdsAt(record, key));
    tokens.values.push_back(0);
    if (tokens.answers.back().empty()) throw InputError("'", key, "' is empty");
  }
  return tokens;
}

AnswerSample TextSample(PromptAndAnswers found, const Json& record, const SampleOptions& options,
                        std::vector<float> values) {
  std::vector<std::string> images;
  if (options.images) images = PlacePromptImages(found.prompt, found.answers, ListedImages(record));
  if (found.prompt.is_array()) AddSystem(found.prompt, record, options.system);
  ReplaceTexts(found.prompt, options.replace);
  for (Json& answer : found.answers) ReplaceTexts(answer, options.replace);
  TextAnswers sample{
      .prompt = std::move(found.prompt), .answers = std::move(found.answers), .values = std::move(values)};
  sample.tools = ToolsIn(record);
  sample.variables = TemplateVariables(record);
  sample.images = std::move(images);
  return sample;
}

}  // namespace

AnswerSample ReadScored(Json record, const SampleOptions& options) {
  RenameColumns(record, options.columns);
  RefuseMedia(record, options.images);
  RefuseRejectedImages(record);
  RefuseUnusedColumns(record);
  if (Has(record, "input_ids") || Has(record, "completion_ids") || Has(record, "chosen_ids")) {
    TokenAnswers tokens = ReadScoredTokens(record);
    if (options.images) tokens.images = ListedImages(record);
    return tokens;
  }
  PromptAndAnswers found =
      IsPair(record) ? ReadPair(record, nullptr, options.images) : ReadSingle(record, nullptr, options.images);
  RefuseEmpty(found.answers);
  std::vector<float> values(found.answers.size(), 0.0F);
  return TextSample(std::move(found), record, options, std::move(values));
}

AnswerSample ReadAnswers(Json record, const SampleOptions& options, const StageFacts& facts) {
  const bool pairs = facts.records == Records::kPairs;
  RenameColumns(record, options.columns);
  RefuseMedia(record, options.images);
  RefuseRejectedImages(record);
  RefuseUnusedColumns(record);
  if (Has(record, "chosen_ids") || (Has(record, "completion_ids") && !pairs)) {
    TokenAnswers tokens = ReadTokenAnswers(record, facts);
    if (options.images) tokens.images = ListedImages(record);
    return tokens;
  }
  const bool pair = IsPair(record);
  if (pairs && !pair) RefuseUnknown(record, &facts);
  PromptAndAnswers found = pair ? ReadPair(record, &facts, options.images) : ReadSingle(record, &facts, options.images);
  CheckAnswers(found.answers);
  RefuseOwnLosses(found, facts);
  return TextSample(std::move(found), record, options, ValuesOf(record, facts, pair));
}

}  // namespace trireme
