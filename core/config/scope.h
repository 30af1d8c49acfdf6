// Where a key counts: in which stages, and beside which values of other keys (schema.stages and schema.needs of
// scope.proto). Read from config.proto; nothing here knows a key by name. What is set elsewhere is refused by
// unused_keys.h.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

namespace trireme {

// What another key must be.
struct KeyNeed {
  enum class Kind { kOneOf, kNoneOf, kHas };
  std::string key;
  Kind kind = Kind::kOneOf;
  std::vector<std::string> values;  // as YAML; of kHas: the item
  // Whether it asks for text or a list that is empty, or is not.
  bool of_empty() const { return values.front() == "\"\"" || values.front() == "[]"; }
};

struct KeyScope {
  std::vector<std::string> stages;  // empty: all
  std::vector<KeyNeed> needs;       // all of them
  bool everywhere() const { return stages.empty() && needs.empty(); }
};

// "tuning.kind == freeze | lora".
KeyNeed ParseNeed(const std::string& text);

// What the field states itself.
KeyScope StatedScope(const google::protobuf::FieldDescriptor& field);
// What counts for "rl.sampler.model": with what its sections state.
KeyScope ScopeOf(const std::string& key);

// "sft, answers": its stages, groups as those that state them, in the order of Stage.
std::vector<std::string> StagesOf(const std::string& text);

// "a, b" at ", ": its parts.
std::vector<std::string> Split(const std::string& text, const std::string& separator);
// "a", "a or b", "a, b or c".
std::string Listed(const std::vector<std::string>& words, const std::string& last);
// "stage ppo", "stages pt and sft".
std::string StagesText(const std::vector<std::string>& stages);
// "Only in stage ppo, with rl.beta other than 0.0." for manuals; empty for everywhere.
std::string ScopeText(const KeyScope& scope);

}  // namespace trireme
