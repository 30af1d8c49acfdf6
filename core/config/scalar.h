// One value of YAML into one field, and back. Strict: quotes make text, integers have no point (but may be
// written 1e3), a truth value is true or false, yes or no, on or off.
#pragma once

#include <google/protobuf/message.h>
#include <yaml-cpp/yaml.h>

#include <string>

namespace trireme {

// False where the value has the wrong type or is out of range; the field then keeps what it had.
[[nodiscard]] bool ReadScalar(const YAML::Node& node, const google::protobuf::FieldDescriptor& field,
                              google::protobuf::Message& section);

// The same for one more item of a list of texts or of integers.
[[nodiscard]] bool AddItem(const YAML::Node& node, const google::protobuf::FieldDescriptor& field,
                           google::protobuf::Message& section);

// What to write instead of a value that was refused: WantedText, or the type's limit where that was passed.
std::string WantedInstead(const YAML::Node& node, const google::protobuf::FieldDescriptor& field);
// The same for an item of a list.
std::string WantedItemInstead(const YAML::Node& node, const google::protobuf::FieldDescriptor& field);

// The value of a field that is no section and no list, written so that ReadScalar gives the same value.
std::string ScalarText(const google::protobuf::Message& section,
                       const google::protobuf::FieldDescriptor& field);

// One item of a list, in the same way.
std::string ItemText(const google::protobuf::Message& section, const google::protobuf::FieldDescriptor& field,
                     int index);

// Text as YAML: as it is where that is safe, otherwise in quotes.
std::string QuotedIfNeeded(const std::string& text);

}  // namespace trireme
