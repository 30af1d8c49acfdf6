#include "core/config/former_names.h"

#include <map>

#include "core/base/error.h"
#include "core/config/options.pb.h"
#include "core/config/schema.h"

namespace trireme {
namespace {

using PresentByFormer = std::map<std::string, std::string>;

void AddFormerNames(const google::protobuf::Descriptor& section, const std::string& prefix, PresentByFormer& names) {
  for (int i = 0; i < section.field_count(); ++i) {
    const FieldDescriptor& field = *section.field(i);
    const std::string key = prefix + field.name();
    const std::string former = field.options().GetExtension(schema::was);
    if (IsSection(field)) {
      TRIREME_CHECK(former.empty()) << "only keys can have a former name, not the section " << key;
      AddFormerNames(*field.message_type(), key + ".", names);
    } else if (!former.empty()) {
      const bool is_new = names.emplace(former, key).second;
      TRIREME_CHECK(is_new) << "two keys were " << former;
    }
  }
}

const PresentByFormer& AllFormerNames() {
  static const PresentByFormer names = [] {
    PresentByFormer found;
    AddFormerNames(*Config::descriptor(), "", found);
    return found;
  }();
  return names;
}

}  // namespace

std::optional<std::string> KeyFormerlyCalled(const std::string& name) {
  const auto found = AllFormerNames().find(name);
  return found == AllFormerNames().end() ? std::nullopt : std::optional(found->second);
}

std::string PresentName(const std::string& key) { return KeyFormerlyCalled(key).value_or(key); }

std::vector<std::string> FormerNames() {
  std::vector<std::string> names;
  for (const auto& [former, present] : AllFormerNames()) names.push_back(former);
  return names;
}

}  // namespace trireme
