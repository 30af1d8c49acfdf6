// Values for a chat template's variables, as a user writes them: NAME=VALUE.
#pragma once

#include <string>
#include <vector>

#include "core/base/json.h"

namespace trireme {

// An object. A value that is JSON (true, 3, ["a"]) is read as such, others are strings. `key`: of the option, for
// errors.
Json ParseTemplateValues(const std::string& key, const std::vector<std::string>& entries);

}  // namespace trireme
