// Log lines as they reach stderr. Each case runs in its own process: the log is process-wide.
#include "core/base/log.h"

#include <gflags/gflags.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/file.h"

namespace trireme {
namespace {

void LogAllAndExit() {
  TRIREME_LOG(INFO) << "an info";
  TRIREME_LOG(WARNING) << "a warning";
  TRIREME_LOG(ERROR) << "an error " << 7;
  std::exit(0);
}

struct LogCase {
  const char* name;
  const char* level;
  int rank;  // -1: unset
  const char* wanted;
};

#define LINE(letter, rank, text) letter " [0-9-]+ [0-9:.]+ " rank "log_test\\.cc:[0-9]+: " text "\n"

const LogCase kCases[] = {
    {"NoRankYet", "auto", -1, "^" LINE("I", "", "an info") LINE("W", "", "a warning") LINE("E", "", "an error 7") "$"},
    {"RankZero", "auto", 0,
     "^" LINE("I", "\\[rank 0\\] ", "an info") LINE("W", "\\[rank 0\\] ", "a warning")
         LINE("E", "\\[rank 0\\] ", "an error 7") "$"},
    {"OtherRankKeepsInfo", "auto", 3,
     "^" LINE("W", "\\[rank 3\\] ", "a warning") LINE("E", "\\[rank 3\\] ", "an error 7") "$"},
    {"InfoOnEveryRank", "info", 3,
     "^" LINE("I", "\\[rank 3\\] ", "an info") LINE("W", "\\[rank 3\\] ", "a warning")
         LINE("E", "\\[rank 3\\] ", "an error 7") "$"},
    {"OnlyErrors", "error", 0, "^" LINE("E", "\\[rank 0\\] ", "an error 7") "$"},
};

class LogLevelDeathTest : public testing::TestWithParam<LogCase> {};

TEST_P(LogLevelDeathTest, WritesExactly) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        gflags::SetCommandLineOption("log_level", GetParam().level);
        if (GetParam().rank >= 0) SetLogRank(GetParam().rank);
        LogAllAndExit();
      },
      testing::ExitedWithCode(0), GetParam().wanted);
}

INSTANTIATE_TEST_SUITE_P(All, LogLevelDeathTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(LogTest, RefusesAnUnknownLevel) {
  EXPECT_EQ(gflags::SetCommandLineOption("log_level", "loud"), "");
  EXPECT_NE(gflags::SetCommandLineOption("log_level", "auto"), "");
}

TEST(LogTest, RefusesAMissingLogDirectory) {
  EXPECT_EQ(gflags::SetCommandLineOption("log_dir", "no/such/directory"), "");
}

TEST(LogDeathTest, LogDirectoryGetsAFileAndStderrStays) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "trireme_log_test";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directory(directory);
  EXPECT_EXIT(
      {
        gflags::SetCommandLineOption("log_dir", directory.c_str());
        LogAllAndExit();
      },
      testing::ExitedWithCode(0), LINE("E", "", "an error 7"));
  std::string in_files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    in_files += ReadTextFile(entry.path().string());
  }
  EXPECT_NE(in_files.find("log_test.cc"), std::string::npos);
  EXPECT_NE(in_files.find("an error 7"), std::string::npos);
}

TEST(LogTest, DisabledLineEvaluatesNothing) {
  gflags::FlagSaver saver;
  gflags::SetCommandLineOption("log_level", "error");
  int evaluated = 0;
  TRIREME_LOG(INFO) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
}

}  // namespace
}  // namespace trireme
