#include "core/base/environment.h"

#include <strings.h>

#include <cstdlib>

namespace trireme {

std::optional<std::string> EnvironmentVariable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == 0) return std::nullopt;
  return value;
}

bool IsSwitchedOn(const char* name) {
  const std::string value = EnvironmentVariable(name).value_or("");
  for (const char* yes : {"1", "on", "yes", "true"}) {
    if (strcasecmp(value.c_str(), yes) == 0) return true;
  }
  return false;
}

}  // namespace trireme
