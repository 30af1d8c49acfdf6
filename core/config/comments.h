// The comments of config.proto at run time. The descriptors of the generated classes have lost them.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace trireme {

// The comment above a key or an enum value, in one line; empty where there is none.
std::string CommentOf(const google::protobuf::FieldDescriptor& field);
std::string CommentOf(const google::protobuf::EnumValueDescriptor& value);

}  // namespace trireme
