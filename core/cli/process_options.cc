// The process-wide options and their gflags: --log-level sets the flag log_level.
#include "core/cli/process_options.h"

#include <gflags/gflags.h>

#include <algorithm>

#include "core/base/error.h"

namespace trireme {

const std::vector<Option>& ProcessOptions() {
  static const std::vector<Option> options = {
      {.name = "log-level",
       .value_name = "LEVEL",
       .help = "info, warning or error; by default info on rank 0 and warning on the others"},
      {.name = "log-dir",
       .value_name = "DIR",
       .help = "an existing directory; the log is also written to files there, one per rank"},
  };
  return options;
}

void SetProcessOption(const Option& option, const std::string& value) {
  std::string flag = option.name;
  std::replace(flag.begin(), flag.end(), '-', '_');
  if (gflags::SetCommandLineOption(flag.c_str(), value.c_str()).empty()) {
    throw InputError("--", option.name, " ", value, ": wanted ", option.help);
  }
}

}  // namespace trireme
