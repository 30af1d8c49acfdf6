// The manual, generated from the schema and its comments.
#include "core/config/help.h"

#include <sstream>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/comments.h"
#include "core/config/names.h"
#include "core/config/options.pb.h"
#include "core/config/scalar.h"
#include "core/config/schema.h"
#include "core/config/scope.h"
#include "core/config/stage_defaults.h"

namespace trireme {
namespace {

using google::protobuf::Message;

constexpr size_t kHelpWidth = 110;

std::string TypeText(const FieldDescriptor& field, const std::vector<std::string>& names) {
  if (!field.is_repeated()) return names.empty() ? WantedText(field) : Concat("one of ", Join(names));
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) return "a list of strings";
  return field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE ? "a list of numbers" : "a list of integers";
}

std::string DefaultText(const Message& section, const FieldDescriptor& field) {
  if (const std::string by_stage = StageDefaultText(field); !by_stage.empty()) return by_stage;
  return field.is_repeated() ? ListText(section, field) : ScalarText(section, field);
}

std::string FormerNameText(const FieldDescriptor& field) {
  const std::string former = field.options().GetExtension(schema::was);
  return former.empty() ? "" : Concat(" Formerly ", former, ".");
}

std::string KeyHelp(const Message& section, const FieldDescriptor& field, const std::string& key) {
  const std::vector<std::string> names = OfferedNames(key), meanings = OfferedMeanings(key);
  const auto head = [&](const std::string& type) {
    return Concat("  ", key, "  (", type, "; default ", DefaultText(section, field), ")\n");
  };
  std::string text = head(TypeText(field, names));
  const bool lists_names = !names.empty() || field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM;
  if (text.size() > kHelpWidth && lists_names) text = head("one of the names below");
  // Two spaces after a key tell it from the words of a text, on heads of several lines, too.
  if (text.size() > kHelpWidth) text = Concat("  ", key, " ", Wrapped(text, "      ").substr(6 + key.size()));
  text += Wrapped(Concat(CommentOf(field), " ", ScopeText(StatedScope(field)), FormerNameText(field)), "      ");
  if (field.is_repeated() && !names.empty()) text += Wrapped(Concat("names: ", Join(names)), "        ");
  for (size_t i = 0; i < meanings.size(); ++i) text += Wrapped(Concat(names[i], ": ", meanings[i]), "        ");
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM) return text;
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    const EnumValueDescriptor& value = *field.enum_type()->value(i);
    text += Wrapped(Concat(SpellingOf(value), ": ", CommentOf(value)), "        ");
  }
  return text;
}

std::string SectionHelp(const Message& section, const std::string& prefix) {
  std::string text;
  for (int i = 0; i < section.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *section.GetDescriptor()->field(i);
    const std::string key = prefix + field.name();
    if (IsSection(field)) {
      text += Concat("\n", Wrapped(Concat(key, ": ", CommentOf(field), " ", ScopeText(StatedScope(field))), ""));
      text += SectionHelp(section.GetReflection()->GetMessage(section, &field), key + ".");
    } else {
      text += KeyHelp(section, field, key);
    }
  }
  return text;
}

}  // namespace

std::string ConfigHelp() {
  return Concat("Keys of RUN.yaml and --set (parallel.tensor is the key tensor in the section parallel):\n",
                SectionHelp(DefaultConfig(), ""));
}

std::string Wrapped(const std::string& words, const std::string& indent, size_t width) {
  std::istringstream stream(words);
  std::string text, line;
  for (std::string word; stream >> word;) {
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > width) {
      text += Concat(indent, line, "\n");
      line.clear();
    }
    line += Concat(line.empty() ? "" : " ", word);
  }
  return line.empty() ? text : Concat(text, indent, line, "\n");
}

}  // namespace trireme
