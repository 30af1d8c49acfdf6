// Services as reporters, with stand-ins for their packages that record what they are told. What the packages
// themselves make of it is not tested here: they are large, and need no change of ours to change.
#include "train/report/report_client.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "core/base/error.h"
#include "core/base/file.h"
#include "train/report/run_report.h"

namespace trireme {
namespace {

constexpr const char* kWandb = R"(
import json, os
class Run:
    def __init__(self, told):
        self.file = open(os.path.join(told["dir"], "told"), "w")
        self.dir, self.url = told["dir"] + "/wandb/run/files", None
        self.tell("init", told)
    def tell(self, call, told): print(call, json.dumps(told), file=self.file, flush=True)
    def log(self, values, step): self.tell("log", [step, values])
    def finish(self): self.tell("finish", None)
def init(**told): return Run(told)
)";

constexpr const char* kSwanlab = R"(
import json, os
def tell(call, told): print(call, json.dumps(told), file=file, flush=True)
def init(**told):
    global file
    file = open(os.path.dirname(told["logdir"]) + "/told", "w")
    tell("init", told)
def log(values, step): tell("log", [step, values])
def finish(): tell("finish", None)
)";

// Refuses names as MLflow does.
constexpr const char* kMlflow = R"(
import json, os, posixpath, re, types
def tell(call, told): print(call, json.dumps(told), file=file, flush=True)
def set_tracking_uri(uri):
    global file, address
    address = uri
    file = open(os.path.join(os.environ["TOLD_IN"], "told"), "w")
    tell("uri", uri)
def get_tracking_uri(): return address
def set_experiment(name): tell("experiment", name)
def start_run(run_name):
    tell("run", run_name)
    return types.SimpleNamespace(info=types.SimpleNamespace(run_id="1"))
def log_params(told): tell("params", told)
def log_metrics(values, step):
    assert len(values) <= 1000, len(values)
    for name in values:
        assert re.match(r"^[/\w.\- :]*$", name) and posixpath.normpath(name) == name and len(name) <= 250, name
    tell("log", [step, values])
def end_run(): tell("finish", None)
)";

constexpr const char* kTrackio = R"(
import json, os
def tell(call, told): print(call, json.dumps(told), file=file, flush=True)
def init(**told):
    global file
    file = open(os.path.join(os.environ["TOLD_IN"], "told"), "w")
    tell("init", [os.environ.get("TRACKIO_DIR"), told])
def log(values, step): tell("log", [step, values])
def finish(): tell("finish", None)
)";

class ReportClients : public testing::Test {
 protected:
  ReportClients() : folder_(testing::TempDir() + "trireme_clients_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_ / "output");
    for (const char* name : {"WANDB_MODE", "WANDB_API_KEY", "SWANLAB_MODE", "SWANLAB_API_KEY", "MLFLOW_TRACKING_URI",
                             "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL", "TRACKIO_DIR"}) {
      unsetenv(name);
    }
    setenv("PYTHONPATH", folder_.c_str(), 1);
    setenv("TOLD_IN", (folder_ / "output").c_str(), 1);
  }
  ~ReportClients() override { std::filesystem::remove_all(folder_); }

  // What the stand-in for the package of this name was told.
  std::string Told(const std::string& name, const std::string& code) {
    std::ofstream(folder_ / (name + ".py")) << code;
    const ReportOptions options{.output = folder_ / "output",
                                .clients = {"tensorboard", name},
                                .project = "boats",
                                .name = "first",
                                .settings = {{"run.steps", 3}}};
    const auto reporters = OpenClients(options);
    EXPECT_EQ(reporters.size(), 1u);
    for (const auto& reporter : reporters) {
      reporter->Write({.step = 1, .loss = 2.5, .grad_norm = std::numeric_limits<double>::quiet_NaN(), .steps_here = 1});
      reporter->Write(
          {.step = 2, .loss = 2.25, .steps_here = 2, .evaluation = Evaluation{.loss = 3, .metrics = {{"bleu-4", 50}}}});
      reporter->Finish();
    }
    return ReadTextFile((folder_ / "output" / "told").string());
  }

  const std::filesystem::path folder_;
};

void ExpectSteps(const std::string& told) {
  EXPECT_NE(told.find("log [1, {\"train/loss\": 2.5, \"train/learning_rate\": 0.0,"), std::string::npos) << told;
  EXPECT_NE(told.find("log [2, {\"train/loss\": 2.25, \"train/grad_norm\": 0.0,"), std::string::npos) << told;
  EXPECT_NE(told.find("\"eval/loss\": 3.0, \"eval/bleu-4\": 50.0}]"), std::string::npos) << told;
  EXPECT_TRUE(told.ends_with("finish null\n")) << told;
}

TEST_F(ReportClients, WandbIsToldOfTheRunAndItsSteps) {
  const std::string told = Told("wandb", kWandb);
  EXPECT_TRUE(told.starts_with("init {\"project\": \"boats\", \"name\": \"first\", \"group\": \"first\", \"dir\": \"" +
                               (folder_ / "output").string() +
                               "\", \"config\": {\"run.steps\": 3}, \"mode\": \"offline\"}\n"))
      << told;
  ExpectSteps(told);
}

TEST_F(ReportClients, AKeyOrAModeOfTheUsersTakesWandbOnline) {
  setenv("WANDB_API_KEY", "key", 1);
  EXPECT_NE(Told("wandb", kWandb).find("\"mode\": \"online\""), std::string::npos);
  setenv("WANDB_MODE", "shared", 1);
  EXPECT_NE(Told("wandb", kWandb).find("\"mode\": \"shared\""), std::string::npos);
}

TEST_F(ReportClients, SwanlabIsToldOfTheRunAndItsSteps) {
  const std::string told = Told("swanlab", kSwanlab);
  EXPECT_TRUE(told.starts_with("init {\"project\": \"boats\", \"experiment_name\": \"first\", \"logdir\": \"" +
                               (folder_ / "output" / "swanlog").string() +
                               "\", \"config\": {\"run.steps\": 3}, \"mode\": \"offline\"}\n"))
      << told;
  ExpectSteps(told);
}

TEST_F(ReportClients, MlflowIsToldOfTheRunAndItsSteps) {
  const std::string told = Told("mlflow", kMlflow);
  EXPECT_TRUE(told.starts_with("uri \"sqlite:///" + (folder_ / "output" / "mlflow.db").string() +
                               "\"\nexperiment \"boats\"\nrun \"first\"\nparams {\"run.steps\": 3}\n"))
      << told;
  ExpectSteps(told);
  setenv("MLFLOW_TRACKING_URI", "http://tracker:5000", 1);
  EXPECT_TRUE(Told("mlflow", kMlflow).starts_with("uri \"http://tracker:5000\"\n"));
}

TEST_F(ReportClients, MlflowGetsNamesThatItTakes) {
  std::ofstream(folder_ / "mlflow.py") << kMlflow;
  LoggedStep step{.step = 1, .loss = 2.5, .steps_here = 1};
  step.metrics["rewards/program:python3 a.py --to=(b|c)/mean"] = 1;
  step.metrics["rewards/http://host:1/score/mean"] = 2;
  step.metrics["rewards/" + std::string(300, 'x') + "/mean"] = 3;
  step.metrics["rewards/" + std::string(300, 'x') + "/std"] = 4;
  for (int i = 0; i < 1000; ++i) step.metrics["load_" + std::to_string(i)] = i;
  const auto reporters = OpenClients({.output = folder_ / "output", .clients = {"mlflow"}});
  reporters.at(0)->Write(step);
  reporters.at(0)->Finish();
  const std::string told = ReadTextFile((folder_ / "output" / "told").string());
  for (const char* wanted :
       {"\"train/rewards/program:python3 a.py --to__b_c_/mean\": 1.0", "\"train/rewards/http:/host:1/score/mean\": 2.0",
        "xx/mean\": 3.0", "xx/std\": 4.0", "\"train/load_999\": 999.0", "finish null"}) {
    EXPECT_NE(told.find(wanted), std::string::npos) << wanted << " in " << told;
  }
}

TEST_F(ReportClients, TrackioIsToldOfTheRunAndItsSteps) {
  const std::string told = Told("trackio", kTrackio);
  EXPECT_TRUE(told.starts_with("init [\"" + (folder_ / "output" / "trackio").string() +
                               "\", {\"project\": \"boats\", \"name\": \"first\", \"group\": \"first\", "
                               "\"config\": {\"run.steps\": 3}}]\n"))
      << told;
  ExpectSteps(told);
}

TEST_F(ReportClients, ADirectoryOrAServerOfTheUsersIsTrackios) {
  setenv("TRACKIO_DIR", "/mine", 1);
  EXPECT_TRUE(Told("trackio", kTrackio).starts_with("init [\"/mine\", "));
  unsetenv("TRACKIO_DIR");
  setenv("TRACKIO_SERVER_URL", "http://tracker", 1);
  EXPECT_TRUE(Told("trackio", kTrackio).starts_with("init [null, "));
}

std::string ErrorOf(const std::function<void(const LogConfig&)>& check, const std::string& name) {
  LogConfig log;
  log.add_report_to(name);
  try {
    check(log);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

TEST_F(ReportClients, UnknownNamesAreRefused) {
  EXPECT_EQ(ErrorOf(CheckReportNames, "tensorboard") + ErrorOf(CheckReportNames, "wandb"), "");
  EXPECT_EQ(ErrorOf(CheckReportNames, "wanbd"),
            "log.report_to: unknown 'wanbd'; wanted some of tensorboard, wandb, swanlab, mlflow, trackio. Did you mean "
            "wandb?");
}

// Without an end to the wait this test would not end.
TEST_F(ReportClients, PackagesWhoseImportWaitsAreRefused) {
  std::ofstream(folder_ / "wandb.py") << "import time\ntime.sleep(100000)\n";
  const std::string said = ErrorOf([](const LogConfig& log) { CheckReportPackages(log, 1); }, "wandb");
  EXPECT_NE(said.find("wandb is a Python package that python3 has not imported after 1 s"), std::string::npos) << said;
  EXPECT_NE(said.find("take wandb out of log.report_to"), std::string::npos) << said;
}

TEST_F(ReportClients, PackagesThatCannotBeImportedAreRefused) {
  const auto check_packages = [](const LogConfig& log) { CheckReportPackages(log); };
  std::ofstream(folder_ / "wandb.py") << "raise ImportError('broken')\n";
  EXPECT_EQ(
      ErrorOf(check_packages, "wandb"),
      "log.report_to: wandb is a Python package that python3 cannot import (ImportError: broken); install it with: "
      "python3 -m pip install wandb");
  std::ofstream(folder_ / "wandb.py") << "";
  EXPECT_EQ(ErrorOf(check_packages, "wandb") + ErrorOf(check_packages, "tensorboard"), "");
}

}  // namespace
}  // namespace trireme
