// One YAML value into one field, and back. Strict: quotes make a string, integers have no point (but may be
// written 1e3), a boolean is true or false, yes or no, on or off.
#pragma once

#include <google/protobuf/message.h>
#include <yaml-cpp/yaml.h>

#include <string>

namespace trireme {

// Returns false if the value has the wrong type or is out of range; the field then keeps its value.
[[nodiscard]] bool ReadScalar(const YAML::Node& node, const google::protobuf::FieldDescriptor& field,
                              google::protobuf::Message& section);

// The same for one more item of a list of strings or integers.
[[nodiscard]] bool AddItem(const YAML::Node& node, const google::protobuf::FieldDescriptor& field,
                           google::protobuf::Message& section);

// What to write instead of a value that was refused: WantedText, or the type's limit if that was exceeded.
std::string WantedInstead(const YAML::Node& node, const google::protobuf::FieldDescriptor& field);
// The same for an item of a list.
std::string WantedItemInstead(const YAML::Node& node, const google::protobuf::FieldDescriptor& field);

// The value of a field that is neither a section nor a list, written so that ReadScalar yields the same
// value.
std::string ScalarText(const google::protobuf::Message& section, const google::protobuf::FieldDescriptor& field);

// One item of a list, likewise.
std::string ItemText(const google::protobuf::Message& section, const google::protobuf::FieldDescriptor& field,
                     int index);
// All of them: [a, b].
std::string ListText(const google::protobuf::Message& section, const google::protobuf::FieldDescriptor& field);

// Text as YAML: plain where that is safe, otherwise quoted.
std::string QuotedIfNeeded(const std::string& text);

}  // namespace trireme
