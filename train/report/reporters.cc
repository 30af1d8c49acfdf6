// The list of reporters, in the order in which they hear of a step.
#include "train/report/report_client.h"
#include "train/report/reporter.h"

// clang-format off
#define TRIREME_REPORTERS(REPORTER)      \
  REPORTER(OpenLogFile)                  \
  REPORTER(OpenEventFile)                \
  REPORTER(OpenScreen)
// clang-format on

namespace trireme {

#define DECLARE(open) std::unique_ptr<Reporter> open(const ReportOptions& options);
TRIREME_REPORTERS(DECLARE)
#undef DECLARE

std::vector<std::unique_ptr<Reporter>> OpenReporters(const ReportOptions& options) {
  std::vector<std::unique_ptr<Reporter>> reporters;
#define OPEN(open) reporters.push_back(open(options));
  TRIREME_REPORTERS(OPEN)
#undef OPEN
  for (std::unique_ptr<Reporter>& client : OpenClients(options)) reporters.push_back(std::move(client));
  return reporters;
}

}  // namespace trireme
