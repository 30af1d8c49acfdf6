// Conversion between YAML and Protobuf values, by the field's type.
#include "core/config/scalar.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/options.pb.h"
#include "core/config/schema.h"
#include "core/config/scope.h"
#include "core/config/scope.pb.h"
#include "core/config/yaml_document.h"

namespace trireme {
namespace {

using google::protobuf::Message;
using google::protobuf::Reflection;

// The whole text as a number, or nothing.
template <typename Number>
std::optional<Number> ParseNumber(const std::string& text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc() || stop != end) return std::nullopt;
  return number;
}

bool IsInteger(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 || field.cpp_type() == FieldDescriptor::CPPTYPE_INT64;
}

int64_t GreatestOfType(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 ? std::numeric_limits<int32_t>::max()
                                                            : std::numeric_limits<int64_t>::max();
}

// "1e3" is a whole number too. Beyond 2^53 a double cannot represent every integer.
std::optional<int64_t> ParseWhole(const std::string& text) {
  if (text.find_first_of("eE") == std::string::npos) return ParseNumber<int64_t>(text);
  const std::optional<double> number = ParseNumber<double>(text);
  constexpr double kMost = 9007199254740992;
  if (!number || std::abs(*number) > kMost || std::trunc(*number) != *number) return std::nullopt;
  return static_cast<int64_t>(*number);
}

// Within the field's range and its type's.
std::optional<int64_t> ParseInteger(const std::string& text, const FieldDescriptor& field) {
  const std::optional<int64_t> number = ParseWhole(text);
  if (!number || !InRange(field, static_cast<double>(*number))) return std::nullopt;
  const bool narrow = field.cpp_type() == FieldDescriptor::CPPTYPE_INT32;
  return narrow && static_cast<int32_t>(*number) != *number ? std::nullopt : number;
}

bool ReadInteger(const std::string& text, const FieldDescriptor& field, Message& section) {
  const std::optional<int64_t> number = ParseInteger(text, field);
  if (!number) return false;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    section.GetReflection()->SetInt64(&section, &field, *number);
  } else {
    section.GetReflection()->SetInt32(&section, &field, static_cast<int32_t>(*number));
  }
  return true;
}

// Finite and within the field's range.
std::optional<double> ParseDouble(const std::string& text, const FieldDescriptor& field) {
  const std::optional<double> number = ParseNumber<double>(text);
  return number && std::isfinite(*number) && InRange(field, *number) ? number : std::nullopt;
}

bool ReadDouble(const std::string& text, const FieldDescriptor& field, Message& section) {
  const std::optional<double> number = ParseDouble(text, field);
  if (number) section.GetReflection()->SetDouble(&section, &field, *number);
  return number.has_value();
}

bool ReadBool(const std::string& text, const FieldDescriptor& field, Message& section) {
  std::string word;
  for (const char letter : text) word += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  const bool yes = word == "true" || word == "yes" || word == "on";
  if (!yes && word != "false" && word != "no" && word != "off") return false;
  section.GetReflection()->SetBool(&section, &field, yes);
  return true;
}

bool ReadEnum(const std::string& text, const FieldDescriptor& field, Message& section) {
  const EnumValueDescriptor* value = FindSpelling(*field.enum_type(), text);
  if (value != nullptr) section.GetReflection()->SetEnum(&section, &field, value);
  return value != nullptr;
}

// The shortest text that reads back exactly, always with a decimal point: some YAML readers take 1e-08 for a
// string.
std::string DoubleText(double value) {
  char buffer[32];
  const auto [end, failure] = std::to_chars(buffer, buffer + sizeof(buffer), value);
  TRIREME_CHECK(failure == std::errc());
  std::string text(buffer, end);
  if (text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

// "python:FILE.py:FUNCTION" of an item {python: FILE.py:FUNCTION}, where the schema lets one have that key.
std::optional<std::string> TextOfKeyed(const YAML::Node& node, const FieldDescriptor& field) {
  if (!node.IsMap() || node.size() != 1 || !field.options().HasExtension(schema::item_keys)) return std::nullopt;
  const auto entry = *node.begin();
  if (!entry.first.IsScalar() || !entry.second.IsScalar()) return std::nullopt;
  const std::string key = entry.first.Scalar();
  const std::vector<std::string> known = Split(field.options().GetExtension(schema::item_keys), ", ");
  if (std::ranges::find(known, key) == known.end()) return std::nullopt;
  return Concat(key, ":", entry.second.Scalar());
}

}  // namespace

bool ReadScalar(const YAML::Node& node, const FieldDescriptor& field, Message& section) {
  const std::string& text = node.Scalar();
  const bool plain = IsPlainScalar(node);
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return plain && ReadBool(text, field, section);
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      return plain && ReadInteger(text, field, section);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return plain && ReadDouble(text, field, section);
    case FieldDescriptor::CPPTYPE_ENUM:
      return ReadEnum(text, field, section);
    default:
      section.GetReflection()->SetString(&section, &field, text);
      return true;
  }
}

bool AddItem(const YAML::Node& node, const FieldDescriptor& field, Message& section) {
  if (const std::optional<std::string> text = TextOfKeyed(node, field)) {
    section.GetReflection()->AddString(&section, &field, *text);
    return true;
  }
  if (!node.IsScalar()) return false;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    section.GetReflection()->AddString(&section, &field, node.Scalar());
    return true;
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    const std::optional<double> number = IsPlainScalar(node) ? ParseDouble(node.Scalar(), field) : std::nullopt;
    if (number) section.GetReflection()->AddDouble(&section, &field, *number);
    return number.has_value();
  }
  const bool wide = field.cpp_type() == FieldDescriptor::CPPTYPE_INT64;
  TRIREME_CHECK(wide || field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) << "a list of " << field.cpp_type_name();
  const std::optional<int64_t> number = IsPlainScalar(node) ? ParseInteger(node.Scalar(), field) : std::nullopt;
  if (!number) return false;
  if (wide) {
    section.GetReflection()->AddInt64(&section, &field, *number);
  } else {
    section.GetReflection()->AddInt32(&section, &field, static_cast<int32_t>(*number));
  }
  return true;
}

std::string WantedInstead(const YAML::Node& node, const FieldDescriptor& field) {
  return field.is_repeated() || IsSection(field) ? WantedText(field) : WantedItemInstead(node, field);
}

std::string WantedItemInstead(const YAML::Node& node, const FieldDescriptor& field) {
  const bool all_digits = IsPlainScalar(node) && node.Scalar().find_first_not_of("0123456789") == std::string::npos;
  if (all_digits && IsInteger(field) && !field.options().HasExtension(schema::max)) {
    const std::optional<int64_t> number = ParseNumber<int64_t>(node.Scalar());
    const int64_t greatest = GreatestOfType(field);
    if (!number || *number > greatest) return Concat("an integer of at most ", greatest);
  }
  return WantedItemText(field);
}

std::string ScalarText(const Message& section, const FieldDescriptor& field) {
  const Reflection& reflection = *section.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(section, &field) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_INT32:
      return std::to_string(reflection.GetInt32(section, &field));
    case FieldDescriptor::CPPTYPE_INT64:
      return std::to_string(reflection.GetInt64(section, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return DoubleText(reflection.GetDouble(section, &field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return SpellingOf(*reflection.GetEnum(section, &field));
    default:
      return QuotedIfNeeded(reflection.GetString(section, &field));
  }
}

std::string ItemText(const Message& section, const FieldDescriptor& field, int index) {
  const Reflection& reflection = *section.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    return std::to_string(reflection.GetRepeatedInt32(section, &field, index));
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    return std::to_string(reflection.GetRepeatedInt64(section, &field, index));
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    return DoubleText(reflection.GetRepeatedDouble(section, &field, index));
  }
  return QuotedIfNeeded(reflection.GetRepeatedString(section, &field, index));
}

std::string ListText(const Message& section, const FieldDescriptor& field) {
  std::vector<std::string> items;
  for (int i = 0; i < section.GetReflection()->FieldSize(section, &field); ++i) {
    items.push_back(ItemText(section, field, i));
  }
  return Concat("[", Join(items), "]");
}

std::string QuotedIfNeeded(const std::string& text) {
  constexpr const char* kSafe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
  const bool may_be_null = text == "null" || text == "Null" || text == "NULL";
  const bool starts_safely = !text.empty() && text[0] != '-' && text[0] != '.';
  if (starts_safely && !may_be_null && text.find_first_not_of(kSafe) == std::string::npos) return text;
  YAML::Emitter emitter;
  emitter << YAML::DoubleQuoted << text;
  return emitter.c_str();
}

}  // namespace trireme
