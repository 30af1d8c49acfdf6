#include "translate/rules.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/other_names.h"
#include "core/config/schema.h"
#include "core/config/scope.h"
#include "translate/shell.h"

namespace trireme {
namespace {

std::vector<std::string> SplitAt(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    const size_t begin = part.find_first_not_of(' ');
    if (begin != std::string::npos) parts.push_back(part.substr(begin, part.find_last_not_of(' ') - begin + 1));
  }
  return parts;
}

bool CountsIn(const std::string& key, const std::string& stage) {
  const std::vector<std::string> stages = ScopeOf(key).stages;
  return stages.empty() || std::ranges::find(stages, stage) != stages.end();
}

// Of several keys, that of the stage.
void SetOneOf(const std::vector<std::string>& keys, const Setting& setting, const std::string& stage,
              Translation& result) {
  for (const std::string& key : keys) {
    if (CountsIn(key, stage)) return To(key)(setting, result);
  }
  result.LeaveOut(setting.origin, Concat(Join(keys, " and "), " have no part in stage ", stage));
}

// Exactly, or else by the longest beginning.
const Rule* RuleFor(const std::string& name, const std::map<std::string, const Rule*>& rules) {
  const auto exact = rules.find(name);
  if (exact != rules.end()) return exact->second;
  for (size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0; dot = name.rfind('.', dot - 1)) {
    const auto beginning = rules.find(name.substr(0, dot + 1) + "*");
    if (beginning != rules.end()) return beginning->second;
  }
  return nullptr;
}

void ApplyByName(const Setting& setting, const std::string& stage, Translation& result) {
  const std::vector<OtherName> found = FindOtherNames(setting.name);
  if (found.empty()) {
    const std::vector<std::string> same = SameNames(setting.name);
    if (!same.empty()) return SetOneOf(same, setting, stage, result);
    return result.Refuse(setting.origin, "no such option is known here");
  }
  const OtherName& first = found.front();
  if (first.missing) return Missing(std::string(first.note))(setting, result);
  if (first.ours.empty()) return result.LeaveOut(setting.origin, std::string(first.note));
  std::vector<std::string> keys;
  for (const OtherName& one : found) keys.emplace_back(one.ours);
  SetOneOf(keys, setting, stage, result);
}

}  // namespace

Rule To(const std::string& key) {
  return [key](const Setting& setting, Translation& result) {
    const std::string text = setting.value();
    if (text == "null" || text == "None" || text.empty()) return;  // as if it were not there
    result.Set(key, setting.values.empty() ? std::vector<std::string>{"true"} : setting.values, setting.origin);
  };
}

Rule ListTo(const std::string& key) {
  return [key](const Setting& setting, Translation& result) {
    if (setting.off()) return;
    std::vector<std::string> items;
    for (const std::string& value : setting.values) {
      for (const std::string& item : SplitAt(value, ',')) items.push_back(item);
    }
    result.Set(key, items, setting.origin);
  };
}

Rule Map(const std::string& key, WordPairs words) {
  return [key, words = std::move(words)](const Setting& setting, Translation& result) {
    for (const auto& [theirs, ours] : words) {
      if (theirs != setting.value()) continue;
      if (!ours.empty()) result.Set(key, ours, setting.origin);
      return;
    }
    if (setting.value() == "null" || setting.value() == "None") return;
    std::vector<std::string> known;
    for (const auto& [theirs, ours] : words) known.push_back(theirs);
    result.Refuse(setting.origin, Concat("there is no such choice here; known: ", Join(known)));
  };
}

Rule IfOn(const std::string& key, const std::string& value) {
  return [key, value](const Setting& setting, Translation& result) {
    const std::string unknown = UnknownIn(setting.value());
    if (!unknown.empty())
      return result.Refuse(setting.origin, Concat(unknown, " has no value in the script; give --define NAME=VALUE"));
    if (!setting.off()) result.Set(key, value, setting.origin);
  };
}

Rule Opposite(const std::string& key) {
  return [key](const Setting& setting, Translation& result) {
    result.Set(key, std::string(setting.off() ? "true" : "false"), setting.origin);
  };
}

Rule NotNeeded(const std::string& why) {
  return [why](const Setting& setting, Translation& result) { result.LeaveOut(setting.origin, why); };
}

Rule Missing(const std::string& why) {
  return [why](const Setting& setting, Translation& result) {
    if (setting.off()) return result.LeaveOut(setting.origin, "is off");
    result.Refuse(setting.origin, why);
  };
}

Rule Only(std::vector<std::string> accepted, const std::string& why) {
  return [accepted = std::move(accepted), why](const Setting& setting, Translation& result) {
    const bool ok = std::ranges::find(accepted, setting.value()) != accepted.end();
    ok ? result.LeaveOut(setting.origin, "is so here") : result.Refuse(setting.origin, why);
  };
}

Rule Differs(const std::string& how) {
  return [how](const Setting& setting, Translation& result) {
    setting.off() ? result.LeaveOut(setting.origin, "is off") : result.Warn(setting.origin, how);
  };
}

Rule Elsewhere() {
  return [](const Setting&, Translation&) {};
}

void Apply(const std::vector<RuleRow>& rows, const Given& given, const std::string& stage, Translation& result) {
  std::map<std::string, const Rule*> rules;
  for (const RuleRow& row : rows) {
    for (const std::string& name : SplitAt(row.names, ' ')) rules.emplace(name, &row.rule);  // the first row decides
  }
  for (const Setting& setting : given.settings) {
    if (given.Find(setting.name) != &setting) continue;  // given again later
    const Rule* rule = RuleFor(setting.name, rules);
    rule != nullptr ? (*rule)(setting, result) : ApplyByName(setting, stage, result);
  }
}

}  // namespace trireme
