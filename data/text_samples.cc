#include "data/text_samples.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "data/messages.h"
#include "data/record_fields.h"
#include "data/text_labels.h"
#include "models/text_labels.h"
#include "stages/retrieval_check.h"

namespace trireme {
namespace {

constexpr FieldNames kAnchorNames = {"anchor", "query", "sentence1", "question"};
constexpr FieldNames kDocumentNames = {"document", "documents", "sentence2", "passage", "docs"};
constexpr FieldNames kPositiveNames = {"positive", "positives", "pos", "answer", "response"};
constexpr FieldNames kNegativeNames = {"negative", "negatives", "neg"};

[[noreturn]] void RefuseUnknownTexts(const Json& record, const StageFacts& facts) {
  const char* wanted = "text and label; messages and label; or input_ids and label";
  if (facts.records == Records::kTexts) {
    wanted =
        "anchor and positive, with negative or negatives; sentence1, sentence2 and score or label; query, pos and "
        "neg; messages, positive_messages and negative_messages; or text_ids";
  } else if (facts.records == Records::kRanked) {
    wanted =
        "query, positive and negative or negatives; query, document or documents and label or labels; messages, "
        "positive_messages and negative_messages; or text_ids and labels";
  }
  throw InputError("not a record for stage ", facts.name, ": it has the keys ", KeysOf(record), "; expected ", wanted,
                   "; rename keys with data.columns");
}

void RefuseEmptyText(const Json& text, const std::string& what) {
  if (text.is_string() && IsBlank(text.get_ref<const std::string&>())) throw InputError(what, " is empty");
  if (!text.is_array()) return;
  if (text.empty()) throw InputError(what, " is empty");
  const auto says_nothing = [](const Json& message) {
    if (!message.is_object()) return false;
    const Json content = message.value("content", Json());
    return content.is_null() || (content.is_string() && IsBlank(content.get_ref<const std::string&>()));
  };
  if (std::ranges::all_of(text, says_nothing)) throw InputError(what, " is empty");
}

// One text or several, of any of these names.
std::vector<Json> TextsAt(const Json& record, FieldNames names, const std::string& what) {
  const std::optional<std::string> name = FindField(record, names);
  if (!name) return {};
  const Json value = ListIfText(record[*name]);
  std::vector<Json> texts;
  if (value.is_array()) {
    for (const Json& each : value) {
      if (!each.is_string()) throw InputError("'", *name, "' has ", each.dump().substr(0, 60), "; wanted texts");
      texts.push_back(each);
    }
  } else {
    texts.emplace_back(TextAt(record, *name));
  }
  for (const Json& text : texts) RefuseEmptyText(text, Concat("the ", what, " '", *name, "'"));
  return texts;
}

// sentence-transformers' numbered columns: negative_1, negative_2 and so on.
void AddNumbered(const Json& record, const std::string& stem, std::vector<Json>& texts) {
  for (int i = 1;; ++i) {
    const std::string name = Concat(stem, "_", i);
    if (!Has(record, name.c_str())) return;
    texts.emplace_back(TextAt(record, name));
    RefuseEmptyText(texts.back(), Concat("'", name, "'"));
  }
}

// ms-swift: one list of messages, or a list of such lists.
std::vector<Json> MessagesAt(const Json& record, const char* name) {
  if (!Has(record, name)) return {};
  const Json value = ParseIfText(record[name], name);
  if (!value.is_array()) throw InputError("'", name, "' is ", value.dump().substr(0, 60), "; wanted lists of messages");
  const bool several = !value.empty() && value[0].is_array();
  std::vector<Json> lists;
  for (const Json& list : several ? value : Json::array({value})) {
    lists.push_back(NormalMessages(list));
    RefuseEmptyText(lists.back(), Concat("a text of '", name, "'"));
  }
  return lists;
}

// A query, or anchor, and what the data says of its documents.
struct Group {
  Json anchor = nullptr;
  std::vector<Json> positives = {}, negatives = {};
  std::vector<Json> documents = {};  // with a value each
  std::vector<float> values = {};
};

std::vector<float> NumbersAt(const Json& record, size_t count) {
  const auto name = FindField(record, {"labels", "label", "score", "scores", "similarity"});
  if (!name) return {};
  const Json value = ListIfText(record[*name]);
  const Json list = value.is_array() ? value : Json::array({value});
  if (list.size() != count) {
    throw InputError("'", *name, "' has ", list.size(), " numbers for ",
                     Counted(static_cast<int64_t>(count), "document"), "; wanted one each");
  }
  std::vector<float> numbers;
  for (const Json& number : list) numbers.push_back(NumberOf(number, *name));
  return numbers;
}

// Positives with scores are documents that have them.
Group WithScores(const Json& record, Group group) {
  if (group.positives.empty() || !group.documents.empty()) return group;
  group.values = NumbersAt(record, group.positives.size());
  if (!group.values.empty()) group.documents = std::exchange(group.positives, {});
  return group;
}

std::optional<Group> ReadGroup(const Json& record, const StageFacts& facts) {
  Group group;
  if (Has(record, "messages")) {
    group.anchor = NormalMessages(ParseIfText(record["messages"], "messages"));
    RefuseEmptyText(group.anchor, "'messages'");
    group.positives = MessagesAt(record, "positive_messages");
    group.negatives = MessagesAt(record, "negative_messages");
    return WithScores(record, std::move(group));
  }
  const std::vector<Json> anchor = TextsAt(record, kAnchorNames, "anchor");
  if (anchor.empty()) return std::nullopt;
  if (anchor.size() != 1) throw InputError("has ", anchor.size(), " anchors; wanted one");
  group.anchor = anchor[0];
  group.positives = TextsAt(record, kPositiveNames, "positive");
  group.negatives = TextsAt(record, kNegativeNames, "negative");
  AddNumbered(record, "negative", group.negatives);
  std::vector<Json> documents = TextsAt(record, kDocumentNames, "document");
  if (documents.empty()) return WithScores(record, std::move(group));
  if (!group.positives.empty()) throw InputError("has both a positive and documents; wanted one of them");
  group.values = NumbersAt(record, documents.size());
  // sentence-transformers: a pair without a score is an anchor and its positive.
  const bool pair = group.values.empty() && documents.size() == 1 && facts.records == Records::kTexts;
  (pair ? group.positives : group.documents) = std::move(documents);
  return group;
}

Group ReadTokenGroup(const Json& record, const StageFacts& facts) {
  Group group;
  const Json& lists = record["text_ids"];
  if (!lists.is_array() || lists.empty()) throw InputError("'text_ids' is no list of lists of token ids");
  std::vector<Json> texts;
  for (const Json& list : lists) {
    const Json one = {{"ids", list}};
    if (IdsAt(one, "ids").empty()) throw InputError("'text_ids' has an empty text");
    texts.push_back(list);
  }
  if (facts.records == Records::kTexts) {
    group.anchor = texts[0];
    texts.erase(texts.begin());
  }
  group.values = NumbersAt(record, texts.size());
  if (group.values.empty() && facts.records == Records::kTexts && !texts.empty()) {
    group.positives = {texts[0]};
    group.negatives = {texts.begin() + 1, texts.end()};
  } else {
    group.documents = std::move(texts);
  }
  return group;
}

void KeepFewer(std::vector<Json>& negatives, const RetrievalConfig& keys) {
  const auto most = static_cast<size_t>(keys.hard_negatives());
  if (most > 0 && negatives.size() > most) negatives.resize(most);
}

// Positives and negatives as documents with labels 1 and 0.
void LabelThem(Group& group) {
  for (const auto& [texts, value] : {std::pair(&group.positives, 1.0F), std::pair(&group.negatives, 0.0F)}) {
    for (Json& text : *texts) {
      group.documents.push_back(std::move(text));
      group.values.push_back(value);
    }
    texts->clear();
  }
}

TextUnit SampleOf(const Group& group) {
  TextUnit sample;
  if (!group.anchor.is_null()) {
    sample.texts.push_back(group.anchor);
    sample.values.push_back(0);
  }
  sample.texts.insert(sample.texts.end(), group.documents.begin(), group.documents.end());
  sample.values.insert(sample.values.end(), group.values.begin(), group.values.end());
  return sample;
}

// Anchors with one positive each, told apart from negatives.
std::vector<TextUnit> AnchorSamples(Group group) {
  if (!group.documents.empty()) {
    throw InputError("has a score or a label for its pair, which retrieval.loss: infonce does not use; choose ",
                     "cosine_similarity, cosent or contrastive, or drop it with data.columns: [label=unused]");
  }
  if (group.positives.empty()) throw InputError("has no positive; retrieval.loss: infonce needs one for each anchor");
  std::vector<TextUnit> samples;
  for (const Json& positive : group.positives) {
    Group one{.anchor = group.anchor, .positives = {positive}, .negatives = group.negatives};
    LabelThem(one);
    samples.push_back(SampleOf(one));
  }
  return samples;
}

void CheckPairValues(const Group& group, const TextOptions& texts) {
  const bool labels =
      texts.keys.loss() == EMBEDDING_LOSS_CONTRASTIVE || texts.keys.loss() == EMBEDDING_LOSS_ONLINE_CONTRASTIVE;
  for (const float value : group.values) {
    if (!labels || value == 0 || value == 1) continue;
    throw InputError("has the label ", value, "; contrastive losses want 1 (alike) or 0 (unlike)");
  }
}

std::vector<TextUnit> ReadAnchors(const Json& record, const StageFacts& facts, const TextOptions& texts) {
  std::optional<Group> group = Has(record, "text_ids") ? ReadTokenGroup(record, facts) : ReadGroup(record, facts);
  if (!group || (group->positives.empty() && group->documents.empty() && group->negatives.empty())) {
    RefuseUnknownTexts(record, facts);
  }
  KeepFewer(group->negatives, texts.keys);
  if (texts.keys.loss() == EMBEDDING_LOSS_INFONCE) return AnchorSamples(*std::move(group));
  if (!group->documents.empty() && group->values.empty()) {
    throw InputError("has no score or label for its pair, which the loss of this run needs");
  }
  LabelThem(*group);
  CheckPairValues(*group, texts);
  return {SampleOf(*group)};
}

std::vector<TextUnit> ReadRanked(const Json& record, const StageFacts& facts, const TextOptions& texts) {
  std::optional<Group> group = Has(record, "text_ids") ? ReadTokenGroup(record, facts) : ReadGroup(record, facts);
  if (!group) RefuseUnknownTexts(record, facts);
  KeepFewer(group->negatives, texts.keys);
  LabelThem(*group);
  if (group->documents.empty()) RefuseUnknownTexts(record, facts);
  if (group->values.empty()) throw InputError("has documents without labels; wanted label or labels, one each");
  const bool lists = texts.keys.ranking() == RANKING_LOSS_LISTWISE;
  for (const float value : group->values) {
    if (value >= 0 && (lists || value <= 1)) continue;
    throw InputError("has the label ", value, "; wanted ",
                     lists ? "0 or more" : "0 to 1, how relevant the document is");
  }
  if (lists && group->documents.size() < 2) {
    throw InputError("has one document; retrieval.ranking: listwise compares at least two for each query");
  }
  if (lists && std::ranges::all_of(group->values, [](float value) { return value == 0; })) {
    throw InputError("has no positive: none of its ", group->documents.size(), " documents is relevant to the query; ",
                     "leave such queries out with data.on_error: skip");
  }
  return {SampleOf(*group)};
}

std::vector<TextUnit> ReadLabelled(const Json& record, const StageFacts& facts, const TextOptions& texts) {
  TextUnit sample;
  if (Has(record, "input_ids")) {
    if (IdsAt(record, "input_ids").empty()) throw InputError("'input_ids' is empty");
    sample.texts = {record["input_ids"]};
  } else if (Has(record, "messages")) {
    sample.texts = {NormalMessages(ParseIfText(record["messages"], "messages"))};
    RefuseEmptyText(sample.texts[0], "'messages'");
  } else {
    sample.texts = TextsAt(record, {"text", "sentence", "content"}, "text");
    if (sample.texts.size() != 1) RefuseUnknownTexts(record, facts);
  }
  const auto name = FindField(record, {"label", "labels"});
  if (!name) throw InputError("has no label: its keys are ", KeysOf(record), "; wanted label");
  sample.values = TargetsOf(record[*name], texts);
  return {std::move(sample)};
}

}  // namespace

TextOptions TextOptionsOf(const Config& config) {
  if (!TrainsTexts(FactsOf(config))) return {};
  const DataConfig& data = config.data();
  TextOptions options{.keys = config.retrieval(),
                      .truncate = data.over_length() == OVER_LENGTH_TRUNCATE ? data.max_length() : 0};
  if (FactsOf(config).records == Records::kLabelled) {
    options.labels = LabelNamesOf(config.retrieval(), config.model().path());
  }
  return options;
}

std::vector<TextUnit> ReadTexts(Json record, const SampleOptions& options, const StageFacts& facts,
                                const TextOptions& texts) {
  RenameColumns(record, options.columns);
  RefuseMedia(record);
  RefuseUnusedColumns(record);
  std::vector<TextUnit> samples;
  if (facts.records == Records::kTexts) {
    samples = ReadAnchors(record, facts, texts);
  } else if (facts.records == Records::kRanked) {
    samples = ReadRanked(record, facts, texts);
  } else {
    samples = ReadLabelled(record, facts, texts);
  }
  const Json variables = TemplateVariables(record);
  for (TextUnit& sample : samples) {
    sample.variables = variables;
    if (!sample.is_messages()) continue;
    AddSystem(sample.texts[0], record, options.system);
  }
  return samples;
}

}  // namespace trireme
