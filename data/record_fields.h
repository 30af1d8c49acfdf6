// Fields of a record as all formats have them: texts, token ids, a question under any of its names. Errors name the
// field, not the place of the record.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace trireme {

class DataConfig;  // core/config.pb.h

using FieldNames = std::initializer_list<const char*>;

// "a, b, c", or "none".
std::string KeysOf(const Json& record);
// Whether it is there and not null.
bool Has(const Json& record, const char* key);
// A text, or a number or truth value as one.
std::string TextAt(const Json& record, const std::string& key);
// The first name where it is there, otherwise the only one of the others that is; two of those are refused.
std::optional<std::string> FindField(const Json& record, FieldNames names);
// Token ids; in `labels` also -100.
std::vector<int32_t> IdsAt(const Json& record, const char* key);
// A weight of at least 0 for each of so many labels.
std::vector<float> WeightsAt(const Json& record, const char* key, size_t labels);

// Alpaca's two-part question, or one under any of its names; nothing where the record has no question.
std::optional<std::string> Question(const Json& record);
// The messages up to a question: the record's `history` before it.
Json QuestionMessages(const Json& record, const std::string& question);
// The record's own system message, or the other one, in front of messages that have none.
void AddSystem(Json& messages, const Json& record, const std::string& otherwise);
// Of the chat template: the record's chat_template_kwargs, and its enable_thinking.
Json TemplateVariables(const Json& record);
// The same for all records: data.template_values.
Json TemplateValuesOf(const DataConfig& data);
// Our name of a column by theirs: data.columns.
std::map<std::string, std::string> RenamedColumns(const DataConfig& data);
// Texts that stand for others: data.replace.
using ReplacedTexts = std::vector<std::pair<std::string, std::string>>;
ReplacedTexts ReplacedTextsOf(const DataConfig& data);
// In messages, or in a text; roles stay as they are.
void ReplaceTexts(Json& value, const ReplacedTexts& texts);
// Their name of a column to ours; extra_info.answer is the key answer of the column extra_info.
void RenameColumns(Json& record, const std::map<std::string, std::string>& columns);

}  // namespace trireme
