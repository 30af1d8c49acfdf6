// For tests that walk over all keys: where a key is, and values that it may have besides its default.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/config/print.h"
#include "core/config/schema.h"

namespace trireme {

struct KeyPlace {
  const google::protobuf::Message* section = nullptr;
  const FieldDescriptor* field = nullptr;
};

// Its field is nullptr if there is no such key, or it is a section.
inline KeyPlace FindKey(const std::string& key, const Config& config = Config::default_instance()) {
  KeyPlace place{.section = &config};
  for (size_t begin = 0;;) {
    const size_t dot = key.find('.', begin);
    place.field = place.section->GetDescriptor()->FindFieldByName(key.substr(begin, dot - begin));
    const bool last = dot == std::string::npos;
    if (place.field == nullptr || (last && !IsSection(*place.field))) return place;
    if (last || !IsSection(*place.field)) return {};
    place.section = &place.section->GetReflection()->GetMessage(*place.section, place.field);
    begin = dot + 1;
  }
}

inline std::string ValueOf(const Config& config, const std::string& key) {
  const KeyPlace place = FindKey(key, config);
  return ValueText(*place.section, *place.field);
}

// All keys that are not sections.
inline std::vector<std::string> AllKeys() {
  std::vector<std::string> keys = KeysUnder(*Config::descriptor());
  std::erase_if(keys, [](const std::string& key) { return FindKey(key).field == nullptr; });
  return keys;
}

inline std::vector<std::string> PossibleValues(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return {"true", "false"};
    case FieldDescriptor::CPPTYPE_ENUM:
      return SpellingsOf(*field.enum_type());
    case FieldDescriptor::CPPTYPE_STRING:
      return {"other", "another"};
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return {"0.25", "0.75", "1.5"};
    default:
      return {"0", "1", "2", "3", "121"};
  }
}

// One that is allowed and is none of `others`, or not the default.
inline std::string OtherValue(const std::string& key, std::vector<std::string> others = {}) {
  const FieldDescriptor& field = *FindKey(key).field;
  if (others.empty()) others.push_back(ValueOf(DefaultConfig(), key));
  for (const std::string& value : PossibleValues(field)) {
    const std::string text = field.is_repeated() ? Concat("[", value, "]") : value;
    const bool number = field.cpp_type() != FieldDescriptor::CPPTYPE_BOOL &&
                        field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM &&
                        field.cpp_type() != FieldDescriptor::CPPTYPE_STRING;
    if (number && !InRange(field, std::stod(value))) continue;
    if (std::ranges::find(others, text) == others.end()) return text;
  }
  throw InputError(key, ": the test knows no other value");
}

}  // namespace trireme
