// Writes YAML: sections as blocks, lists in brackets.
#include "core/config/print.h"

#include "core/base/error.h"
#include "core/config/scalar.h"
#include "core/config/schema.h"

namespace trireme {
namespace {

using google::protobuf::Message;

std::string SectionText(const Message& section, const std::string& indent) {
  std::string text;
  for (int i = 0; i < section.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *section.GetDescriptor()->field(i);
    if (IsSection(field)) {
      const Message& inner = section.GetReflection()->GetMessage(section, &field);
      text += Concat(indent, field.name(), ":\n", SectionText(inner, indent + "  "));
    } else {
      text += Concat(indent, field.name(), ": ", ValueText(section, field), "\n");
    }
  }
  return text;
}

}  // namespace

std::string ValueText(const Message& section, const FieldDescriptor& field) {
  return field.is_repeated() ? ListText(section, field) : ScalarText(section, field);
}

std::string ToYaml(const Config& config) { return SectionText(config, ""); }

}  // namespace trireme
