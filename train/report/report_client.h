// ReportClient: a service that shows curves, through its Python package: how it is spelled in log.report_to, and what
// the package is told. A new one is a file with its function and a line in report_clients.cc. On rank 0 only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/config.pb.h"
#include "train/report/reporter.h"

namespace trireme {

struct ReportClient {
  std::string name;  // in log.report_to; also that of the package
  // Python that defines start(info), log(step, values) and finish(). info: project, name, directory (of the run),
  // config (settings by key); values: numbers by tag.
  std::string code;
};

// Refuses names in log.report_to that are no client's. tensorboard is always written, and may be named.
void CheckReportNames(const LogConfig& log);
// Refuses a client whose package python3 cannot import, or not within so many seconds, and says what to do. Takes a
// second per client.
void CheckReportPackages(const LogConfig& log, double seconds = 120);
// One for each client in log.report_to.
std::vector<std::unique_ptr<Reporter>> OpenClients(const ReportOptions& options);

}  // namespace trireme
