#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/nearest.h"
#include "core/base/text.h"
#include "train/report/curves.h"
#include "train/report/fed_program.h"
#include "train/report/report_client.h"

// clang-format off
#define TRIREME_REPORT_CLIENTS(CLIENT)   \
  CLIENT(WandbClient)                    \
  CLIENT(SwanlabClient)                  \
  CLIENT(MlflowClient)                   \
  CLIENT(TrackioClient)
// clang-format on

namespace trireme {

#define DECLARE(client) ReportClient client();
TRIREME_REPORT_CLIENTS(DECLARE)
#undef DECLARE

namespace {

constexpr const char* kAlwaysThere = "tensorboard";
constexpr double kSecondsToFinish = 60;  // to send what is left over a slow line

// What reads the lines that a client is fed with. A number that is not finite is null in JSON, and no point of a curve.
constexpr const char* kFeed = R"(
import json, sys
start(json.loads(sys.stdin.readline()))
for line in sys.stdin:
    line = json.loads(line)
    log(line["step"], {tag: value for tag, value in line["values"].items() if value is not None})
finish()
)";

std::vector<ReportClient> AllClients() {
  std::vector<ReportClient> clients;
#define ADD(client) clients.push_back(client());
  TRIREME_REPORT_CLIENTS(ADD)
#undef ADD
  return clients;
}

template <typename Names>
std::vector<ReportClient> ClientsIn(const Names& names) {
  std::vector<ReportClient> clients = AllClients();
  std::erase_if(clients,
                [&](const ReportClient& client) { return std::ranges::find(names, client.name) == names.end(); });
  return clients;
}

class ClientReporter : public Reporter {
 public:
  ClientReporter(const ReportClient& client, const ReportOptions& options)
      : program_({"python3", "-c", client.code + kFeed}, "the reporter " + client.name) {
    program_.Send(JsonLine({{"project", options.project},
                            {"name", options.name},
                            {"directory", std::filesystem::absolute(options.output).string()},
                            {"config", options.settings}}));
  }

  void Write(const LoggedStep& step) override {
    Json values = Json::object();
    for (const auto& [tag, number] : CurvesOf(step)) values[tag] = number;
    program_.Send(JsonLine({{"step", step.step}, {"values", values}}));
  }
  void Finish() override { program_.Finish(kSecondsToFinish); }

 private:
  FedProgram program_;
};

constexpr int kTimedOut = 124;  // the status of coreutils' timeout

// Why a package cannot be imported, and what to do about it; empty: it can. An import that waits for something, a file
// system or a server that does not answer, ends after so long.
std::string WhyNotImportable(const std::string& package, double seconds) {
  const std::string command = "python3 -c 'import " + package + "'";
  FILE* python = popen(Concat("timeout --foreground -k 1 ", seconds, " ", command, " 2>&1").c_str(), "r");
  if (python == nullptr) return "and python3 cannot be started";
  std::string said;
  for (std::array<char, 256> part; std::fgets(part.data(), part.size(), python) != nullptr;) said += part.data();
  const int status = pclose(python);
  if (status == 0) return "";
  if (WIFEXITED(status) && WEXITSTATUS(status) == kTimedOut)
    return Concat("that python3 has not imported after ", seconds, " s; see where it waits with: python3 -X ",
                  "importtime -c 'import ", package, "', or take ", package, " out of log.report_to");
  while (!said.empty() && said.back() == '\n') said.pop_back();
  return Concat("that python3 cannot import (", said.empty() ? "it fails" : said.substr(said.rfind('\n') + 1),
                "); install it with: python3 -m pip install ", package);
}

}  // namespace

void CheckReportNames(const LogConfig& log) {
  std::vector<std::string> known = {kAlwaysThere};
  for (const ReportClient& client : AllClients()) known.push_back(client.name);
  for (const std::string& name : log.report_to()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const auto nearest = Nearest(name, known);
    throw InputError("log.report_to: unknown '", name, "'; wanted some of ", Join(known),
                     nearest ? Concat(". Did you mean ", *nearest, "?") : "");
  }
}

void CheckReportPackages(const LogConfig& log, double seconds) {
  for (const ReportClient& client : ClientsIn(log.report_to())) {
    const std::string why = WhyNotImportable(client.name, seconds);
    if (!why.empty()) throw InputError("log.report_to: ", client.name, " is a Python package ", why);
  }
}

std::vector<std::unique_ptr<Reporter>> OpenClients(const ReportOptions& options) {
  std::vector<std::unique_ptr<Reporter>> reporters;
  for (const ReportClient& client : ClientsIn(options.clients)) {
    reporters.push_back(std::make_unique<ClientReporter>(client, options));
  }
  return reporters;
}

}  // namespace trireme
