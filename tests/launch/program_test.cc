// The real program from outside: exit status, what reaches stdout and stderr, alone and under mpirun, and
// that no failure leaves a rank behind.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/text.h"
#include "core/config/help.h"
#include "launch/offered_names.h"
#include "ops/switches.h"
#include "tests/launch/run_shell.h"

namespace trireme {
namespace {

const std::string kTrireme = TRIREME_PROGRAM;
const std::string kFailing = FAILING_PROGRAM;
const std::string kMpirun = MPIRUN;

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

// Processes that still run a program.
int CountRunning(const std::string& program) {
  int running = 0;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    std::error_code unreadable;
    running += std::filesystem::read_symlink(process.path() / "exe", unreadable) == program;
  }
  return running;
}

TEST(AloneTest, HelpAndVersion) {
  const ShellResult help = RunShell(kTrireme + " --help");
  EXPECT_EQ(help.status, 0);
  EXPECT_TRUE(Contains(help.out, "usage: trireme COMMAND"));
  EXPECT_EQ(help.err, "");
  const ShellResult version = RunShell(kTrireme + " --version");
  EXPECT_EQ(version.status, 0);
  EXPECT_TRUE(version.out.starts_with("trireme " TRIREME_VERSION " (")) << version.out;
  EXPECT_EQ(version.out.find('\n'), version.out.size() - 1) << version.out;
}

TEST(AloneTest, HelpOfACommandContainsTheManual) {
  const ShellResult help = RunShell(kTrireme + " plan --help");
  EXPECT_EQ(help.status, 0);
  OfferNamesOfLists();
  EXPECT_TRUE(Contains(help.out, ConfigHelp()));
  std::string words;  // regardless of line breaks
  std::istringstream stream(help.out);
  for (std::string word; stream >> word;) words += word + " ";
  EXPECT_TRUE(Contains(words, "names: " + Join(OperatorNames())));
}

TEST(AloneTest, SuccessExitsWithZero) {
  const ShellResult plan = RunShell(kTrireme + " plan --world 8 --set parallel.tensor=2");
  EXPECT_EQ(plan.status, 0) << plan.err;
  EXPECT_NE(plan.out, "");
}

TEST(AloneTest, WrongInputExitsWithTwoAndOneLine) {
  const std::string run = WriteFile("wrong_run.yaml", "parallel:\n  tensr: 2\n");
  const struct {
    std::string arguments, wanted;
  } cases[] = {
      {"", "no command given; see trireme --help\n"},
      {"plna", "unknown command 'plna'; did you mean 'plan'?\n"},
      {"plan --wrold 2", "unknown option --wrold; did you mean --world?\n"},
      {"--log-level=loud plan",
       "--log-level loud: wanted info, warning or error; by default info on rank 0 and warning on the "
       "others\n"},
      {"plan " + run, run + ":2: parallel.tensr: unknown key; did you mean parallel.tensor?\n"},
      {"plan --set run.seed=1 --set run.sed=2", "--set run.sed=2: unknown key; did you mean run.seed?\n"},
      {"plan --set 'run.seed=[1,\n2]'",
       "--set run.seed=[1, 2]: run.seed: wanted an integer of 0 or more, found a list\n"},
      {"plan no/such.yaml", "no/such.yaml: cannot be read: No such file or directory\n"},
  };
  for (const auto& [arguments, wanted] : cases) {
    const ShellResult result = RunShell(kTrireme + " " + arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_EQ(result.err, wanted);
    EXPECT_EQ(result.out, "");
  }
}

// Paths that would block forever, form a loop or control the terminal: one line, at once.
TEST(AloneTest, PathsThatAreNotFilesAreRefusedByName) {
  const std::string folder = testing::TempDir() + "program_test_paths/";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string pipe = folder + "run.yaml", loop = folder + "loop", model = folder + "model";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink("loop", loop);
  std::filesystem::create_directory(model);
  std::ofstream(model + "/config.json") << R"({"model_type": "llama", "rms_norm_eps": 1e999})";
  const std::string dry = WriteFile("dry_run.yaml", "data: {train: [a]}\nrun: {output: b}\n");
  const std::string name(300, 'n'), link = ": cannot be read: Too many levels of symbolic links\n";
  const struct {
    std::string arguments, wanted;
  } cases[] = {
      {"plan " + pipe, pipe + ": is a FIFO; wanted a regular file\n"},
      {"plan /dev/zero", "/dev/zero: is a device; wanted a regular file\n"},
      {"plan " + loop, loop + link},
      {"inspect " + loop, loop + link},
      {"inspect " + folder + name, folder + name + ": cannot be read: File name too long\n"},
      {"train " + dry + " --dry-run --set model.path=" + loop, loop + "/config.json" + link},
      {"train " + dry + " --dry-run --set model.path=" + model,
       model + "/config.json: cannot be read as JSON: number overflow parsing '1e999'\n"},
      {"plan $'a\\x1b[2Jb'", "a\\x1b[2Jb: cannot be read: No such file or directory\n"},
  };
  for (const auto& [arguments, wanted] : cases) {
    const ShellResult result = RunShell("bash -c \"" + kTrireme + " " + arguments + "\"");
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_TRUE(Contains(result.err, wanted)) << arguments << ": " << result.err;  // others may follow
    EXPECT_EQ(result.out, "");
  }
}

// A name in a file is text, whatever it contains.
TEST(AloneTest, InspectShowsControlCharactersOfNames) {
  const std::string header = R"({"a\u001b[2Jb":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})";
  const uint64_t length = header.size();
  const std::string path =
      WriteFile("names.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) + header);
  const ShellResult result = RunShell(kTrireme + " inspect " + path);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "a\\x1b[2Jb")) << result.out;
  EXPECT_FALSE(Contains(result.out, "\x1b")) << result.out;
}

TEST(AloneTest, FailuresAtRunTimeExitWithOne) {
  const ShellResult runtime = RunShell(kFailing + " runtime");
  EXPECT_EQ(runtime.status, 1);
  EXPECT_TRUE(Contains(runtime.err, "[rank 0] ") && Contains(runtime.err, "the device is on fire\n")) << runtime.err;
  const ShellResult unexpected = RunShell(kFailing + " unexpected");
  EXPECT_EQ(unexpected.status, 1);
  EXPECT_TRUE(Contains(unexpected.err, "unexpected: index 9\n")) << unexpected.err;
  const ShellResult full_disk = RunShell(kTrireme + " plan > /dev/full");
  EXPECT_EQ(full_disk.status, 1);
  EXPECT_TRUE(Contains(full_disk.err, "stdout cannot be written")) << full_disk.err;
}

// Like a full disk: reported, not fatal by signal.
TEST(AloneTest, AFileSizeLimitIsAnError) {
  const std::string path = testing::TempDir() + "limited";
  const ShellResult limited = RunShell("ulimit -f 1; " + kFailing + " write --to " + path);
  EXPECT_EQ(limited.status, 1) << limited.err;
  EXPECT_TRUE(Contains(limited.err, path + " cannot be written: File too large")) << limited.err;
}

TEST(AloneTest, ABugAbortsWithATrace) {
  const ShellResult bug = RunShell(kFailing + " bug");
  EXPECT_EQ(bug.status, 128 + SIGABRT);
  EXPECT_TRUE(Contains(bug.err, "[rank 0] check failed: 1 > 2 ")) << bug.err;
  EXPECT_TRUE(Contains(bug.err, "numbers are upside down\n")) << bug.err;
  EXPECT_TRUE(Contains(bug.err, "trireme::RunProgram(")) << bug.err;
}

TEST(JobTest, OnlyRankZeroPrints) {
  const ShellResult version = RunShell(kMpirun + " -n 3 " + kTrireme + " --version");
  EXPECT_EQ(version.status, 0) << version.err;
  EXPECT_TRUE(version.out.starts_with("trireme " TRIREME_VERSION " (")) << version.out;
  EXPECT_EQ(version.out.find('\n'), version.out.size() - 1) << version.out;
}

TEST(JobTest, WrongInputIsOneLineForAllRanks) {
  const ShellResult option = RunShell(kMpirun + " -n 3 " + kTrireme + " plan --wrold 2");
  EXPECT_EQ(option.status, 2);
  EXPECT_EQ(option.err, "unknown option --wrold; did you mean --world?\n");
  const ShellResult input = RunShell(kMpirun + " -n 3 " + kFailing + " input");
  EXPECT_EQ(input.status, 2);
  EXPECT_EQ(input.err, "a.jsonl:3: wanted text, found 7\n");
  EXPECT_EQ(CountRunning(kFailing), 0);
}

TEST(JobTest, WrongInputOfOneRankNamesIt) {
  const ShellResult input = RunShell(kMpirun + " -n 3 " + kFailing + " input --rank 2");
  EXPECT_EQ(input.status, 2);
  EXPECT_EQ(input.err, "[rank 2] a.jsonl:3: wanted text, found 7\n");
  EXPECT_EQ(CountRunning(kFailing), 0);
}

TEST(JobTest, AFailureOfOneRankEndsAll) {
  for (const std::string kind : {"runtime", "unexpected"}) {
    const ShellResult result = RunShell(kMpirun + " -n 3 " + kFailing + " " + kind + " --rank 1");
    EXPECT_EQ(result.status, 1) << kind;
    EXPECT_TRUE(Contains(result.err, "[rank 1] ")) << result.err;
    EXPECT_FALSE(Contains(result.err, "[rank 0] ") || Contains(result.err, "[rank 2] ")) << result.err;
    EXPECT_EQ(CountRunning(kFailing), 0);
  }
}

// No communicator exists yet whose watch could report.
TEST(JobTest, ARankThatWaitsInMpiReportsIt) {
  const std::string run = "TRIREME_HANG_REPORT_SECONDS=1 " + kMpirun + " -n 2 ";
  const ShellResult barrier = RunShell(run + kFailing + " late");
  EXPECT_EQ(barrier.status, 0) << barrier.err;
  EXPECT_TRUE(Contains(barrier.err, "rank 0 (host ") && Contains(barrier.err, " s in MPI_Barrier: another rank"))
      << barrier.err;
  EXPECT_FALSE(Contains(barrier.err, "rank 1 (host ")) << barrier.err;
  const ShellResult start = RunShell(run + "sh -c 'if [ $OMPI_COMM_WORLD_RANK = 1 ]; then sleep 4; fi; exec " +
                                     kFailing + " write --to /dev/null'");
  EXPECT_EQ(start.status, 0) << start.err;
  EXPECT_TRUE(Contains(start.err, "rank 0 (host ") && Contains(start.err, " s in MPI_Init: another rank")) << start.err;
  const ShellResult wrong = RunShell("TRIREME_HANG_REPORT_SECONDS=soon " + kMpirun + " -n 1 " + kFailing + " late");
  EXPECT_EQ(wrong.status, 2) << wrong.err;
  EXPECT_TRUE(Contains(wrong.err, "TRIREME_HANG_REPORT_SECONDS is 'soon'; write")) << wrong.err;
}

TEST(JobTest, ABugOfOneRankEndsAll) {
  const ShellResult bug = RunShell(kMpirun + " -n 3 " + kFailing + " bug --rank 1");
  EXPECT_EQ(bug.status, 128 + SIGABRT);
  EXPECT_TRUE(Contains(bug.err, "[rank 1] check failed: 1 > 2 ")) << bug.err;
  EXPECT_EQ(CountRunning(kFailing), 0);
}

TEST(JobTest, TheRankThatFailedFirstIsReportedFirst) {
  const ShellResult result = RunShell(kMpirun + " -n 3 " + kFailing + " peer");
  EXPECT_EQ(result.status, 1);
  const std::string first_line = result.err.substr(0, result.err.find('\n'));
  EXPECT_TRUE(Contains(first_line, "[rank 1] ") && Contains(first_line, "the device is on fire")) << result.err;
  EXPECT_EQ(CountRunning(kFailing), 0);
}

}  // namespace
}  // namespace trireme
