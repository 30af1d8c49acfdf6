#include "core/config/compare.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/print.h"
#include "core/config/schema.h"

namespace trireme {
namespace {

using google::protobuf::Message;

void CompareSections(const Message& before, const Message& now, const std::string& prefix,
                     std::vector<KeyDifference>& differences) {
  for (int i = 0; i < now.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *now.GetDescriptor()->field(i);
    const std::string key = prefix + field.name();
    if (IsSection(field)) {
      CompareSections(before.GetReflection()->GetMessage(before, &field), now.GetReflection()->GetMessage(now, &field),
                      key + ".", differences);
      continue;
    }
    const std::string was = ValueText(before, field), is = ValueText(now, field);
    if (was != is) differences.push_back({key, was, is});
  }
}

}  // namespace

std::vector<KeyDifference> DifferingKeys(const Config& before, const Config& now) {
  std::vector<KeyDifference> differences;
  CompareSections(before, now, "", differences);
  return differences;
}

std::string ToText(const std::vector<KeyDifference>& differences) {
  return Join(differences, "; ",
              [](const KeyDifference& one) { return Concat(one.key, " was ", one.before, ", now ", one.now); });
}

}  // namespace trireme
