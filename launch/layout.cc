#include "launch/layout.h"

#include "core/config/load.h"

namespace trireme {

Config ConfigOf(const Arguments& arguments) {
  if (arguments.has(kRunFile)) return LoadConfig(arguments.value(kRunFile), arguments.overrides());
  return ParseConfig("", "defaults", arguments.overrides());
}

}  // namespace trireme
