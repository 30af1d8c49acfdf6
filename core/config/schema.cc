// The schema's own options (options.proto) and defaults, read through reflection.
#include "core/config/schema.h"

#include <algorithm>
#include <iterator>

#include "core/base/error.h"
#include "core/base/nearest.h"
#include "core/base/text.h"
#include "core/config/former_names.h"
#include "core/config/options.pb.h"
#include "core/config/other_names.h"
#include "core/config/stage_defaults.h"

namespace trireme {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// " of 1 or more", " from 0 to 3", " from 0 to below 1", or empty.
std::string RangeText(const FieldDescriptor& field) {
  const auto& options = field.options();
  const bool has_min = options.HasExtension(schema::min);
  const double least = options.GetExtension(schema::min);
  if (options.HasExtension(schema::max)) return Concat(" from ", least, " to ", options.GetExtension(schema::max));
  if (options.HasExtension(schema::below))
    return Concat(" from ", least, " to below ", options.GetExtension(schema::below));
  return has_min ? Concat(" of ", least, " or more") : "";
}

void SetToDefault(const FieldDescriptor& field, Message& message) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&message, &field, field.default_value_bool());
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(&message, &field, field.default_value_int32());
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(&message, &field, field.default_value_int64());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(&message, &field, field.default_value_double());
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.SetString(&message, &field, field.default_value_string());
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnum(&message, &field, field.default_value_enum());
    default:
      TRIREME_CHECK(false) << "config.proto uses an unsupported type: " << field.full_name();
  }
}

void FillWithDefaults(Message& message) {
  const Descriptor& section = *message.GetDescriptor();
  const Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < section.field_count(); ++i) {
    const FieldDescriptor& field = *section.field(i);
    if (IsSection(field)) {
      FillWithDefaults(*reflection.MutableMessage(&message, &field));
    } else if (field.is_repeated()) {
      const int items = field.options().ExtensionSize(schema::default_items);
      for (int item = 0; item < items; ++item) {
        reflection.AddString(&message, &field, field.options().GetExtension(schema::default_items, item));
      }
    } else {
      SetToDefault(field, message);
    }
  }
}

// "tensor" of "parallel.tensor".
std::string LastName(const std::string& key) { return key.substr(key.rfind('.') + 1); }

// Of parallel.tensor and rl.sampler.tensor the first: the one in a section within a section is rarely meant.
std::vector<std::string> Shallowest(const std::vector<std::string>& keys) {
  const auto depth = [](const std::string& key) { return std::ranges::count(key, '.'); };
  const auto least = depth(*std::ranges::min_element(keys, {}, depth));
  std::vector<std::string> found;
  std::ranges::copy_if(keys, std::back_inserter(found), [&](const std::string& key) { return depth(key) == least; });
  return found;
}

bool IsSectionName(const std::string& key) {
  const FieldDescriptor* field = Config::descriptor()->FindFieldByName(key);
  return field != nullptr && IsSection(*field);
}

}  // namespace

std::string SpellingOf(const EnumValueDescriptor& value) { return value.options().GetExtension(schema::spelling); }

std::vector<std::string> SpellingsOf(const EnumDescriptor& type) {
  std::vector<std::string> spellings;
  for (int i = 0; i < type.value_count(); ++i) spellings.push_back(SpellingOf(*type.value(i)));
  return spellings;
}

const EnumValueDescriptor* FindSpelling(const EnumDescriptor& type, const std::string& spelling) {
  for (int i = 0; i < type.value_count(); ++i) {
    if (SpellingOf(*type.value(i)) == spelling) return type.value(i);
  }
  return nullptr;
}

const FieldDescriptor* FindField(const std::string& key) {
  const Descriptor* section = Config::descriptor();
  for (size_t begin = 0; section != nullptr;) {
    const size_t dot = key.find('.', begin);
    const FieldDescriptor* field = section->FindFieldByName(key.substr(begin, dot - begin));
    if (field == nullptr || dot == std::string::npos) return field;
    section = field->message_type();
    begin = dot + 1;
  }
  return nullptr;
}

std::string WantedText(const FieldDescriptor& field) {
  if (IsSection(field)) return Concat("keys such as ", field.message_type()->field(0)->name());
  if (!field.is_repeated()) return WantedItemText(field);
  return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING ? "a list such as [a, b]" : "a list such as [1, 2]";
}

std::string WantedItemText(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      return Concat("an integer", RangeText(field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Concat("a number", RangeText(field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return Concat("one of ", Join(SpellingsOf(*field.enum_type())));
    default:
      return "a string";
  }
}

bool InRange(const FieldDescriptor& field, double value) {
  const auto& options = field.options();
  return !(options.HasExtension(schema::min) && value < options.GetExtension(schema::min)) &&
         !(options.HasExtension(schema::max) && value > options.GetExtension(schema::max)) &&
         !(options.HasExtension(schema::below) && value >= options.GetExtension(schema::below));
}

std::vector<std::string> KeysUnder(const Descriptor& section, const std::string& prefix) {
  std::vector<std::string> keys;
  for (int i = 0; i < section.field_count(); ++i) {
    const FieldDescriptor& field = *section.field(i);
    keys.push_back(prefix + field.name());
    if (!IsSection(field)) continue;
    for (const std::string& key : KeysUnder(*field.message_type(), keys.back() + ".")) keys.push_back(key);
  }
  return keys;
}

std::string UnknownKeyHint(const std::string& key) {
  const std::vector<std::string> all = KeysUnder(*Config::descriptor());
  const std::string name = LastName(key);
  const std::string section = key.substr(0, key.size() - name.size());
  std::vector<std::string> names_here, same_name;
  for (const std::string& former : FormerNames()) {
    if (LastName(former) == name) same_name.push_back(PresentName(former));
  }
  for (const std::string& known : all) {
    if (LastName(known) == name && std::ranges::count(same_name, known) == 0) same_name.push_back(known);
    if (section + LastName(known) == known) names_here.push_back(LastName(known));
  }
  const auto theirs = OtherNameHint(name, section);
  // A section is none that a value could be meant for: --save DIR. Nor is a key that is called as another system's,
  // which is another one here.
  const std::vector<OtherName> others = FindOtherNames(name);
  const bool is_theirs =
      !others.empty() && !others.front().ours.empty() && std::ranges::none_of(others, [&](const OtherName& one) {
        return one.missing || std::ranges::count(same_name, one.ours) > 0;
      });
  const bool is_key = !same_name.empty() && !is_theirs && !(same_name.size() == 1 && IsSectionName(same_name.front()));
  if (!same_name.empty() && (is_key || !theirs)) {
    return Concat("did you mean ", Join(Shallowest(same_name), " or "), "?");
  }
  if (theirs) return *theirs;
  if (const auto near = Nearest(name, names_here)) return Concat("did you mean ", section, *near, "?");
  std::vector<std::string> all_names = all;
  std::ranges::copy(FormerNames(), std::back_inserter(all_names));
  if (const auto near = Nearest(key, all_names)) return Concat("did you mean ", PresentName(*near), "?");
  if (names_here.empty()) return UnknownKeyHint(name);  // the section is unknown too: suggest top-level keys
  return Concat("known keys here: ", Join(names_here));
}

Config DefaultConfig() {
  Config config;
  FillWithDefaults(config);
  ClearStageDefaults(config);
  FillStageDefaults(config);
  return config;
}

}  // namespace trireme
