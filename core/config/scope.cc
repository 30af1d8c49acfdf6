#include "core/config/scope.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/schema.h"
#include "core/config/scope.pb.h"

namespace trireme {
namespace {

std::string NeedText(const KeyNeed& need) {
  const bool empty = need.of_empty();
  switch (need.kind) {
    case KeyNeed::Kind::kOneOf:
      return empty ? need.key + " empty" : Concat(need.key, " ", Listed(need.values, "or"));
    case KeyNeed::Kind::kNoneOf:
      return empty ? need.key + " set" : Concat(need.key, " other than ", Listed(need.values, "and"));
    case KeyNeed::Kind::kHas:
      return Concat(need.values.front(), " in ", need.key);
  }
  return "";
}

}  // namespace

std::vector<std::string> Split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0;;) {
    const size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + separator.size();
  }
}

KeyNeed ParseNeed(const std::string& text) {
  constexpr std::pair<const char*, KeyNeed::Kind> kOperators[] = {
      {" == ", KeyNeed::Kind::kOneOf}, {" != ", KeyNeed::Kind::kNoneOf}, {" has ", KeyNeed::Kind::kHas}};
  for (const auto& [sign, kind] : kOperators) {
    const size_t at = text.find(sign);
    if (at == std::string::npos) continue;
    return {.key = text.substr(0, at), .kind = kind, .values = Split(text.substr(at + Concat(sign).size()), " | ")};
  }
  TRIREME_CHECK(false) << "a condition of the schema is none: " << text;
  return {};
}

std::vector<std::string> StagesOf(const std::string& text) {
  std::vector<std::string> stages;
  const auto* all = Stage_descriptor();
  for (const std::string& word : Split(text, ", ")) {
    const size_t before = stages.size();
    for (int i = 0; i < all->value_count(); ++i) {
      const google::protobuf::EnumValueDescriptor& stage = *all->value(i);
      const std::vector<std::string> groups = Split(stage.options().GetExtension(schema::groups), ", ");
      if (SpellingOf(stage) == word || std::ranges::count(groups, word) > 0) stages.push_back(SpellingOf(stage));
    }
    TRIREME_CHECK(stages.size() > before) << "the schema names no stage and no group of stages: " << word;
  }
  return stages;
}

KeyScope StatedScope(const FieldDescriptor& field) {
  KeyScope scope;
  const auto& options = field.options();
  if (options.HasExtension(schema::stages)) scope.stages = StagesOf(options.GetExtension(schema::stages));
  for (int i = 0; i < options.ExtensionSize(schema::needs); ++i) {
    scope.needs.push_back(ParseNeed(options.GetExtension(schema::needs, i)));
  }
  return scope;
}

KeyScope ScopeOf(const std::string& key) {
  KeyScope scope;
  const google::protobuf::Descriptor* section = Config::descriptor();
  for (const std::string& name : Split(key, ".")) {
    const FieldDescriptor* field = section == nullptr ? nullptr : section->FindFieldByName(name);
    TRIREME_CHECK(field != nullptr) << "no key " << key;
    KeyScope stated = StatedScope(*field);
    if (!stated.stages.empty()) scope.stages = std::move(stated.stages);
    for (KeyNeed& need : stated.needs) scope.needs.push_back(std::move(need));
    section = field->message_type();
  }
  return scope;
}

std::string Listed(const std::vector<std::string>& words, const std::string& last) {
  if (words.size() < 2) return Join(words);
  return Concat(Join(std::vector<std::string>(words.begin(), words.end() - 1)), " ", last, " ", words.back());
}

std::string StagesText(const std::vector<std::string>& stages) {
  return Concat(stages.size() == 1 ? "stage " : "stages ", Listed(stages, "and"));
}

std::string ScopeText(const KeyScope& scope) {
  if (scope.everywhere()) return "";
  const std::string stages = scope.stages.empty() ? "" : Concat(" in ", StagesText(scope.stages));
  std::vector<std::string> needs;
  for (const KeyNeed& need : scope.needs) needs.push_back(NeedText(need));
  const std::string with = needs.empty() ? "" : Concat(stages.empty() ? "" : ",", " with ", Listed(needs, "and"));
  return Concat("Only", stages, with, ".");
}

}  // namespace trireme
