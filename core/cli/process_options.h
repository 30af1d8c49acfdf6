// Process-wide options, such as --log-level: the only ones stored in gflags. gflags never sees the
// command line itself, because it keeps only the last of a repeated flag and exits at an unknown one.
#pragma once

#include <string>
#include <vector>

#include "core/cli/command.h"

namespace trireme {

const std::vector<Option>& ProcessOptions();

// Throws an input error if gflags rejects the value.
void SetProcessOption(const Option& option, const std::string& value);

}  // namespace trireme
