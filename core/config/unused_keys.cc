#include "core/config/unused_keys.h"

#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/compare.h"
#include "core/config/print.h"
#include "core/config/scalar.h"
#include "core/config/schema.h"
#include "core/config/scope.h"

namespace trireme {
namespace {

using google::protobuf::Message;

// A key's field, and the section that has it.
struct KeyField {
  const Message* section = nullptr;
  const FieldDescriptor* field = nullptr;
};

KeyField FindKey(const Config& config, const std::string& key) {
  KeyField found{.section = &config};
  for (size_t begin = 0;;) {
    const size_t dot = key.find('.', begin);
    found.field = found.section->GetDescriptor()->FindFieldByName(key.substr(begin, dot - begin));
    TRIREME_CHECK(found.field != nullptr) << "a condition of the schema names no key: " << key;
    if (dot == std::string::npos) return found;
    found.section = &found.section->GetReflection()->GetMessage(*found.section, found.field);
    begin = dot + 1;
  }
}

bool Has(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

bool HasItem(const KeyField& list, const std::string& item) {
  for (int i = 0; i < list.section->GetReflection()->FieldSize(*list.section, list.field); ++i) {
    if (ItemText(*list.section, *list.field, i) == item) return true;
  }
  return false;
}

// Empty if the condition holds; otherwise what follows "key = value".
std::string WhyUnused(const KeyNeed& need, const Config& config) {
  const KeyField other = FindKey(config, need.key);
  const std::string value = ValueText(*other.section, *other.field), no_part = " has no part in this run: " + need.key;
  const bool empty = need.of_empty();
  switch (need.kind) {
    case KeyNeed::Kind::kOneOf:
      if (Has(need.values, value)) return "";
      return empty ? no_part + " is set"
                   : Concat(" is for ", need.key, " ", Listed(need.values, "or"), ", not ", value);
    case KeyNeed::Kind::kNoneOf:
      if (!Has(need.values, value)) return "";
      return empty ? no_part + " is empty" : Concat(no_part, " is ", value);
    case KeyNeed::Kind::kHas:
      return HasItem(other, need.values.front()) ? "" : Concat(no_part, " has no ", need.values.front());
  }
  return "";
}

std::string WhyUnused(const KeyScope& scope, const Config& config) {
  const std::string stage = SpellingOf(*Stage_descriptor()->FindValueByNumber(config.stage()));
  if (!scope.stages.empty() && !Has(scope.stages, stage)) {
    return Concat(" is for ", StagesText(scope.stages), ", not ", stage);
  }
  for (const KeyNeed& need : scope.needs) {
    if (const std::string why = WhyUnused(need, config); !why.empty()) return why;
  }
  return "";
}

}  // namespace

std::vector<UnusedKey> UnusedKeys(const Config& config, const std::string& prefix) {
  std::vector<UnusedKey> unused;
  for (const KeyDifference& set : DifferingKeys(DefaultConfig(), config)) {
    if (!set.key.starts_with(prefix)) continue;
    const std::string why = WhyUnused(ScopeOf(set.key), config);
    if (!why.empty()) unused.push_back({set.key, set.now, why});
  }
  return unused;
}

void RefuseUnusedKeys(const Config& config, Problems& problems, const std::string& prefix) {
  for (const UnusedKey& one : UnusedKeys(config, prefix)) {
    problems.Add(Concat(one.key, " = ", one.value, one.why, "; leave it out"));
  }
}

void RefuseUnusedKeys(const Config& config, const std::string& prefix) {
  Problems problems;
  RefuseUnusedKeys(config, problems, prefix);
  problems.ThrowIfAny();
}

}  // namespace trireme
