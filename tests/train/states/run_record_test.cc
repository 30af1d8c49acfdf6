// Records of starts, and when a run is complete.
#include "train/states/run_record.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/config/load.h"
#include "core/config/print.h"
#include "train/run/output_lock.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

const std::string kNothing =
    "nothing was trained or changed. Choose another run.output, or set run.steps above 20 to continue "
    "training";

class RunRecordTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(output_); }
  void TearDown() override { fs::remove_all(output_); }

  Config ConfigOf(const std::vector<std::string>& overrides) const {
    Config config = ParseConfig("", "run.yaml", overrides);
    config.mutable_run()->set_output(output_.string());
    return config;
  }
  RunStart At(int64_t step, bool same_run = true) const {
    return {.output = output_, .checkpoint = output_ / "checkpoint", .step = step, .same_run = same_run};
  }
  std::string Refusal(const Config& config, const RunStart& start, int64_t total_steps) const {
    try {
      return IsComplete(config, start, total_steps) ? "complete" : "not complete";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
  }

  const fs::path output_ = fs::path(testing::TempDir()) / ("run_record_" + std::to_string(getpid()));
};

TEST_F(RunRecordTest, EarlierOnesAreKept) {
  const std::vector<Config> starts = {ConfigOf({"run.seed=1"}), ConfigOf({"run.seed=2"}), ConfigOf({"run.seed=3"})};
  for (const Config& config : starts) WriteRecord(output_, config);
  EXPECT_EQ(ReadTextFile((output_ / "run-1.yaml").string()), ToYaml(starts[0]));
  EXPECT_EQ(ReadTextFile((output_ / "run-2.yaml").string()), ToYaml(starts[1]));
  EXPECT_EQ(ReadTextFile((output_ / "run.yaml").string()), ToYaml(starts[2]));
  EXPECT_FALSE(fs::exists(output_ / "run-3.yaml"));
}

TEST_F(RunRecordTest, CompleteMeansAllStepsTheSameSettingsAndTheModel) {
  WriteRecord(output_, ConfigOf({}));
  EXPECT_EQ(Refusal(ConfigOf({}), At(19), 20), "not complete");
  EXPECT_EQ(Refusal(ConfigOf({}), At(20), 20), "not complete") << "final is missing";
  fs::create_directories(output_ / "final");
  EXPECT_EQ(Refusal(ConfigOf({}), At(20), 20), "complete");
  EXPECT_EQ(Refusal(ConfigOf({"parallel.tensor=2", "save.keep=1", "comm.buffer_mb=1"}), At(20), 20), "complete");
  EXPECT_EQ(Refusal(ConfigOf({"optimizer.lr=1"}), At(19), 20), "not complete");
  EXPECT_EQ(Refusal(ConfigOf({}), At(20, /*same_run=*/false), 20), "not complete");
}

// As a program wrote it whose section run had keys that are now those of eval, save and log.
TEST_F(RunRecordTest, OneOfFormerNamesIsRead) {
  std::ofstream(output_ / "run.yaml") << "run:\n  output: " << output_.string()
                                      << "\n  save_every: 7\n  keep: 5\n  eval_every: 3\n  early_stopping: 2\n"
                                         "  final_from: best\n  log_every: 4\n  report_to: [wandb]\n  seed: 9\n";
  const std::vector<std::string> same = {
      "save.every=7", "save.keep=5",           "eval.every=3", "eval.early_stopping=2",
      "log.every=4",  "log.report_to=[wandb]", "run.seed=9",   "save.final_from=best"};
  EXPECT_EQ(ToText(DifferencesFromRecord(output_, ConfigOf(same))), "");
  ASSERT_TRUE(ResumedSettings(ConfigOf(same).run()).has_value());
  EXPECT_EQ(ResumedSettings(ConfigOf(same).run())->save().every(), 7);
  fs::create_directories(output_ / "final");
  EXPECT_EQ(Refusal(ConfigOf(same), At(20), 20), "complete");
  for (const auto& [changed, said] : {std::pair{"eval.early_stopping=3", "eval.early_stopping was 2, now 3"},
                                      std::pair{"save.final_from=last", "save.final_from was best, now last"}}) {
    std::vector<std::string> other = same;
    other.emplace_back(changed);
    EXPECT_NE(Refusal(ConfigOf(other), At(20), 20).find(said), std::string::npos) << changed;
  }
  std::vector<std::string> shown = same;
  shown.insert(shown.end(), {"log.every=9", "save.every=8", "eval.every=4", "log.trace=2"});
  EXPECT_EQ(Refusal(ConfigOf(shown), At(20), 20), "complete") << "when it reports does not change what it trains";
}

TEST_F(RunRecordTest, RefusalsNameWhatDiffers) {
  WriteRecord(output_, ConfigOf({"run.steps=20"}));
  fs::create_directories(output_ / "final");
  const std::string checkpoint = (output_ / "checkpoint").string();
  EXPECT_EQ(
      Refusal(ConfigOf({"run.steps=20", "optimizer.lr=1", "parallel.tensor=2"}), At(20), 20),
      checkpoint + ": the run is complete at step 20; settings differ: optimizer.lr was 1.0e-04, now 1.0; " + kNothing);
  EXPECT_EQ(Refusal(ConfigOf({"run.steps=10"}), At(20), 10),
            checkpoint +
                ": is at step 20, but this start requests only 10; settings differ: run.steps was 20, now 10; " +
                kNothing);
}

TEST_F(RunRecordTest, AnUnreadableRecordReportsNoDifferences) {
  std::ofstream(output_ / "run.yaml") << "no: {such: key}\n";
  EXPECT_TRUE(DifferencesFromRecord(output_, ConfigOf({})).empty());
}

TEST(OutputLockTest, HostLocalLocksAreDetected) {
  const std::string mounts =
      "24 1 0:22 / / rw,relatime - ext4 /dev/sda1 rw\n"
      "90 24 0:51 / /a rw,relatime - nfs4 server:/a rw,vers=4.2,local_lock=none,addr=10.0.0.1\n"
      "91 24 0:52 / /b rw,relatime - nfs server:/b rw,vers=3,nolock,local_lock=all,addr=10.0.0.1\n"
      "92 24 0:53 / /c rw,relatime - lustre ost:/c rw,localflock\n"
      "93 24 0:54 / /d rw,relatime - nfs server:/d rw,vers=3,local_lock=flock\n";
  EXPECT_FALSE(LocksAreLocal(mounts, "0:22"));
  EXPECT_FALSE(LocksAreLocal(mounts, "0:51"));
  EXPECT_TRUE(LocksAreLocal(mounts, "0:52"));
  EXPECT_TRUE(LocksAreLocal(mounts, "0:53"));
  EXPECT_FALSE(LocksAreLocal(mounts, "0:54")) << "only flock() is local, and we do not use it";
  EXPECT_FALSE(LocksAreLocal(mounts, "0:99"));
}

}  // namespace
}  // namespace trireme
