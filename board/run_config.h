// The configuration of a run as keys and values, read from its run.yaml without the schema: a run of another version
// is shown as it was written.
#pragma once

#include <string>

#include "core/base/json.h"

namespace trireme {

// [["model.path", "models/x"], …] in the file's order; `name` stands for the file in errors.
Json ConfigKeys(const std::string& yaml, const std::string& name);

}  // namespace trireme
