// Variables of the environment that users set. Knows none by name.
#pragma once

#include <optional>
#include <string>

namespace trireme {

// Nothing: it is not set, or empty.
std::optional<std::string> EnvironmentVariable(const char* name);

// 1, on, yes or true, in any case.
bool IsSwitchedOn(const char* name);

}  // namespace trireme
