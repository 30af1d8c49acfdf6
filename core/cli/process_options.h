// Options of the whole process, such as --log-level: the only ones that gflags holds. gflags never sees the
// command line itself, for it keeps only the last of a repeated flag and ends the program at an unknown one.
#pragma once

#include <string>
#include <vector>

#include "core/cli/command.h"

namespace trireme {

const std::vector<Option>& ProcessOptions();

// Throws an input error where gflags refuses the value.
void SetProcessOption(const Option& option, const std::string& value);

}  // namespace trireme
