#include "core/config/paths.h"

#include "core/base/home_path.h"
#include "core/config/options.pb.h"
#include "core/config/schema.h"

namespace trireme {
namespace {

using google::protobuf::Message;
using google::protobuf::Reflection;

void ExpandField(const FieldDescriptor& field, Message& section) {
  const Reflection& reflection = *section.GetReflection();
  if (!field.is_repeated()) {
    return reflection.SetString(&section, &field, ExpandHome(reflection.GetString(section, &field)));
  }
  for (int i = 0; i < reflection.FieldSize(section, &field); ++i) {
    const std::string path = reflection.GetRepeatedString(section, &field, i);
    reflection.SetRepeatedString(&section, &field, i, ExpandHome(path));
  }
}

void ExpandSection(Message& section) {
  for (int i = 0; i < section.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *section.GetDescriptor()->field(i);
    if (IsSection(field)) {
      ExpandSection(*section.GetReflection()->MutableMessage(&section, &field));
    } else if (field.options().GetExtension(schema::path)) {
      ExpandField(field, section);
    }
  }
}

}  // namespace

void ExpandPaths(Config& config) { ExpandSection(config); }

}  // namespace trireme
