// The classes that a pickle of a training checkpoint may name. Naming one has no effect; the list is there so that a
// file which wants something else is refused as what it is: not a checkpoint.
#pragma once

#include <string>

namespace trireme {

bool IsKnownClass(const std::string& module, const std::string& name);

}  // namespace trireme
