// Looks comments up by full name in a second pool, built from the embedded descriptor set.
#include "core/config/comments.h"

#include <google/protobuf/descriptor.pb.h>

#include <sstream>

#include "core/base/error.h"
#include "core/config/embedded.h"

namespace trireme {
namespace {

using google::protobuf::DescriptorPool;

const DescriptorPool& CommentedPool() {
  static const DescriptorPool& pool = *[] {
    static DescriptorPool filled;
    google::protobuf::FileDescriptorSet files;
    TRIREME_CHECK(files.ParseFromArray(kConfigDescriptorSet, kConfigDescriptorSetSize));
    for (const auto& file : files.file()) TRIREME_CHECK(filled.BuildFile(file) != nullptr) << file.name();
    return &filled;
  }();
  return pool;
}

template <typename Descriptor>
std::string CommentAbove(const Descriptor* descriptor) {
  google::protobuf::SourceLocation location;
  if (descriptor == nullptr || !descriptor->GetSourceLocation(&location)) return "";
  std::istringstream words(location.leading_comments);
  std::string comment;
  for (std::string word; words >> word;) comment += (comment.empty() ? "" : " ") + word;
  return comment;
}

}  // namespace

std::string CommentOf(const google::protobuf::FieldDescriptor& field) {
  return CommentAbove(CommentedPool().FindFieldByName(field.full_name()));
}

std::string CommentOf(const google::protobuf::EnumValueDescriptor& value) {
  return CommentAbove(CommentedPool().FindEnumValueByName(value.full_name()));
}

}  // namespace trireme
