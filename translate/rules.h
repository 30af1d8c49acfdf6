// What becomes of one setting of another system, as rows of a table: {names, rule}. A name without a row follows the
// table of other systems' names (core/config/other_names.h), then keys here that have the same name and meaning.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "translate/given.h"
#include "translate/translation.h"

namespace trireme {

using Rule = std::function<void(const Setting&, Translation&)>;

struct RuleRow {
  std::string names;  // one or several, with blanks between them; "rollout.*" are all that begin so
  Rule rule;
};

using WordPairs = std::vector<std::pair<std::string, std::string>>;  // theirs, ours

Rule To(const std::string& key);                              // the same value
Rule ListTo(const std::string& key);                          // "a,b" is a list of two
Rule Map(const std::string& key, WordPairs words);            // other words are refused
Rule IfOn(const std::string& key, const std::string& value);  // set to the value, unless the option is off
Rule Opposite(const std::string& key);                        // true is false here
Rule NotNeeded(const std::string& why);
Rule Missing(const std::string& why);                                  // refused, unless it is off
Rule Only(std::vector<std::string> accepted, const std::string& why);  // refused unless it has one of these values
Rule Differs(const std::string& how);                                  // left out, with a warning
Rule Elsewhere();                                                      // the system's own function reads it

// Applies the rows to all settings. `stage` decides where a name has a key in several sections.
void Apply(const std::vector<RuleRow>& rows, const Given& given, const std::string& stage, Translation& result);

}  // namespace trireme
