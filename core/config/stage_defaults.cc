#include "core/config/stage_defaults.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "core/base/error.h"
#include "core/config/scalar.h"
#include "core/config/schema.h"
#include "core/config/scope.h"
#include "core/config/scope.pb.h"

namespace trireme {
namespace {

using google::protobuf::Message;
using google::protobuf::MessageFactory;

struct StageDefault {
  std::string value;  // as YAML
  std::vector<std::string> stages;
};

// Of "false in sft, answers".
StageDefault ParseStageDefault(const FieldDescriptor& field) {
  const std::string text = field.options().GetExtension(schema::stage_default), sign = " in ";
  const size_t at = text.find(sign);
  TRIREME_CHECK(at != std::string::npos) << "a default of the schema names no stage: " << text;
  return {text.substr(0, at), StagesOf(text.substr(at + sign.size()))};
}

void SetScalar(const std::string& value, const FieldDescriptor& field, Message& section) {
  const bool read = ReadScalar(YAML::Load(value), field, section);
  TRIREME_CHECK(read) << "a default of the schema cannot be read: " << field.full_name() << ", " << value;
}

using Visit = std::function<void(const FieldDescriptor&, Message&, const Message*)>;

// Every such key, with its section, and that section of `earlier` if there is one.
void ForEach(Message& section, const Message* earlier, const Visit& visit) {
  for (int i = 0; i < section.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *section.GetDescriptor()->field(i);
    if (IsSection(field)) {
      ForEach(*section.GetReflection()->MutableMessage(&section, &field),
              earlier == nullptr ? nullptr : &earlier->GetReflection()->GetMessage(*earlier, &field), visit);
    } else if (field.options().HasExtension(schema::stage_default)) {
      visit(field, section, earlier);
    }
  }
}

}  // namespace

void ClearStageDefaults(Config& config) {
  ForEach(config, nullptr, [](const FieldDescriptor& field, Message& section, const Message*) {
    section.GetReflection()->ClearField(&section, &field);
  });
}

void FillStageDefaults(Config& config, const Config* earlier) {
  const std::string stage = SpellingOf(*Stage_descriptor()->FindValueByNumber(config.stage()));
  ForEach(config, earlier, [&](const FieldDescriptor& field, Message& section, const Message* said) {
    if (section.GetReflection()->HasField(section, &field)) return;
    const StageDefault other = ParseStageDefault(field);
    const bool differs = std::ranges::find(other.stages, stage) != other.stages.end();
    // A key that is not set yields the default of all other stages.
    SetScalar(said != nullptr ? ScalarText(*said, field)
              : differs       ? other.value
                              : ScalarText(section, field),
              field, section);
  });
}

std::string StageDefaultText(const FieldDescriptor& field) {
  if (!field.options().HasExtension(schema::stage_default)) return "";
  const Message& defaults = *MessageFactory::generated_factory()->GetPrototype(field.containing_type());
  const StageDefault other = ParseStageDefault(field);
  return Concat(ScalarText(defaults, field), "; in ", StagesText(other.stages), " ", other.value);
}

}  // namespace trireme
