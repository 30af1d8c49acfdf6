// Reporter: one way a run tells of its steps. A new one is a file with its function and a line in reporters.cc; a
// service with a Python package is one in report_clients.cc (report_client.h). On rank 0 only.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "train/report/logged_step.h"
#include "train/report/screen.h"

namespace trireme {

struct ReportOptions {
  std::filesystem::path output;  // of the run
  bool go_on = false;            // with the log that is there
  int64_t first_step = 1;        // of this start
  ScreenOptions screen = {};
  std::vector<std::string> clients = {};  // log.report_to
  std::string project = {}, name = {};    // of the run there
  Json settings = Json::object();         // what is set, by key
};

class Reporter {
 public:
  virtual ~Reporter() = default;
  // A step that is due in the log: its loss is the mean since the last such step.
  virtual void Write(const LoggedStep& step) = 0;
  // Any other step.
  virtual void Pass(const LoggedStep& /*step*/) {}
  // After the last step, before anything says that the run is done; throws where what was written is gone.
  virtual void Finish() {}
};

// All of the list.
std::vector<std::unique_ptr<Reporter>> OpenReporters(const ReportOptions& options);

}  // namespace trireme
