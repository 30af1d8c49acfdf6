#include "board/schema_form.h"

#include "core/config/comments.h"
#include "core/config/names.h"
#include "core/config/print.h"
#include "core/config/schema.h"
#include "core/config/scope.h"

namespace trireme {
namespace {

using google::protobuf::Message;

std::string FormType(const FieldDescriptor& field) {
  if (field.is_repeated()) return "list";
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "switch";
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      return "integer";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "number";
    case FieldDescriptor::CPPTYPE_ENUM:
      return "choice";
    default:
      return "text";
  }
}

Json ChoicesOf(const FieldDescriptor& field, const std::string& key) {
  Json choices = Json::array();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    for (int i = 0; i < field.enum_type()->value_count(); ++i) {
      const EnumValueDescriptor& value = *field.enum_type()->value(i);
      choices.push_back({{"name", SpellingOf(value)}, {"comment", CommentOf(value)}});
    }
  }
  const std::vector<std::string> names = OfferedNames(key), meanings = OfferedMeanings(key);
  for (size_t i = 0; i < names.size(); ++i) {
    choices.push_back({{"name", names[i]}, {"comment", i < meanings.size() ? meanings[i] : ""}});
  }
  return choices;
}

void AddFormSection(const Message& section, const std::string& prefix, const std::string& comment, Json& sections) {
  Json keys = Json::array();
  const auto& fields = *section.GetDescriptor();
  for (int i = 0; i < fields.field_count(); ++i) {
    const FieldDescriptor& field = *fields.field(i);
    if (IsSection(field)) continue;
    const std::string key = prefix + field.name();
    keys.push_back({{"key", key},
                    {"type", FormType(field)},
                    {"wanted", WantedText(field)},
                    {"default", ValueText(section, field)},
                    {"comment", CommentOf(field)},
                    {"scope", ScopeText(ScopeOf(key))},
                    {"choices", ChoicesOf(field, key)}});
  }
  sections.push_back({{"section", prefix.substr(0, prefix.size() - (prefix.empty() ? 0 : 1))},
                      {"comment", comment},
                      {"keys", std::move(keys)}});
  for (int i = 0; i < fields.field_count(); ++i) {
    const FieldDescriptor& field = *fields.field(i);
    if (!IsSection(field)) continue;
    AddFormSection(section.GetReflection()->GetMessage(section, &field), prefix + field.name() + ".", CommentOf(field),
                   sections);
  }
}

}  // namespace

Json SchemaForm() {
  Json sections = Json::array();
  AddFormSection(DefaultConfig(), "", "", sections);
  return {{"sections", std::move(sections)}};
}

}  // namespace trireme
