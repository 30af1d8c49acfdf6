// Facts about the schema that Protobuf's descriptors do not state directly: spellings, ranges, defaults,
// the list of all keys. Everything here is read from config.proto; nothing knows a key by name.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "core/config.pb.h"

namespace trireme {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;

inline bool IsSection(const FieldDescriptor& field) { return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE; }

std::string SpellingOf(const EnumValueDescriptor& value);
std::vector<std::string> SpellingsOf(const EnumDescriptor& type);
// nullptr if no value has that spelling.
const EnumValueDescriptor* FindSpelling(const EnumDescriptor& type, const std::string& spelling);

// "an integer of 1 or more", "one of ring, ulysses, hybrid", "a list of strings": what a value must be.
std::string WantedText(const FieldDescriptor& field);
// The same for one item of a list.
std::string WantedItemText(const FieldDescriptor& field);

// The key's, or the section's; nullptr if there is none of this name: "parallel.tensor".
const FieldDescriptor* FindField(const std::string& key);

bool InRange(const FieldDescriptor& field, double value);

// "parallel.tensor" for each key of a section and its subsections, sections themselves included, in the
// schema's order.
std::vector<std::string> KeysUnder(const google::protobuf::Descriptor& section, const std::string& prefix = "");

// What follows "unknown key; " in an error: the key that was probably meant, or the known keys.
std::string UnknownKeyHint(const std::string& key);

// All keys at their defaults in the default stage, each explicitly set, so that configurations compare by meaning.
Config DefaultConfig();

}  // namespace trireme
