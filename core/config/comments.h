// The comments of config.proto at run time. The descriptors of the generated classes do not retain them.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

namespace trireme {

// The comment above a key or an enum value, on one line; empty if there is none.
std::string CommentOf(const google::protobuf::FieldDescriptor& field);
std::string CommentOf(const google::protobuf::EnumValueDescriptor& value);

}  // namespace trireme
