// What the board makes of a log that grows, is cut, replaced or odd.
#include "board/run_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "board/run_config.h"

namespace trireme {
namespace {

class RunLogTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void Write(const std::string& text, std::ios::openmode mode = std::ios::app) {
    std::ofstream(folder_ / "log.jsonl", mode) << text;
  }
  std::filesystem::path folder_;
};

TEST(ColumnsTest, NumbersOfTwoLevelsHaveNames) {
  Columns columns;
  ASSERT_TRUE(columns.AddLine(
      R"({"step":1,"loss":0.1,"experts":{"entropy":2.5,"tokens":{"a":[1,2]}},"mtp_loss":[3,4],"skipped":"why"})"));
  ASSERT_TRUE(columns.AddLine(R"({"step":2,"loss":null,"more":7})"));
  EXPECT_EQ(columns.names(),
            (std::vector<std::string>{"step", "loss", "experts/entropy", "mtp_loss/1", "mtp_loss/2", "more"}));
  EXPECT_EQ(columns.Value("experts/entropy", 0), 2.5);
  EXPECT_EQ(columns.Value("mtp_loss/2", 0), 4);
  EXPECT_TRUE(std::isnan(columns.Value("loss", 1)));
  EXPECT_TRUE(std::isnan(columns.Value("more", 0)));
  EXPECT_EQ(columns.Value("more", 1), 7);
  EXPECT_TRUE(std::isnan(columns.Value("experts/entropy", 1)));
  for (size_t i = 0; i < columns.names().size(); ++i) EXPECT_EQ(columns.values(i).size(), 2u);
}

TEST(ColumnsTest, LinesThatAreNotObjectsAddNothing) {
  Columns columns;
  for (const char* line : {"", "[1]", "7", "\"text\"", "{\"step\":", "{\"step\":1}}", "null"}) {
    EXPECT_FALSE(columns.AddLine(line)) << line;
  }
  EXPECT_EQ(columns.rows(), 0);
  EXPECT_TRUE(columns.names().empty());
}

TEST(ColumnsTest, AHostileLineNeitherNestsNorGrowsWithoutLimit) {
  Columns columns;
  std::string line = "{\"deep\":" + std::string(100000, '[') + std::string(100000, ']');
  for (int i = 0; i < 5000; ++i) line += ",\"k" + std::to_string(i) + "\":" + std::to_string(i);
  ASSERT_TRUE(columns.AddLine(line + "}"));
  EXPECT_EQ(columns.names().size(), 512u);
}

TEST_F(RunLogTest, FollowsAFileThatIsNotThereYet) {
  RunLog log(folder_);
  EXPECT_FALSE(log.Poll());
  EXPECT_TRUE(log.caught_up());
  Write("{\"step\":1}\n{\"st");
  EXPECT_TRUE(log.Poll());
  EXPECT_EQ(log.position().rows, 1);
  Write("ep\":2}\n");
  EXPECT_TRUE(log.Poll());
  EXPECT_EQ(log.columns().Value("step", 1), 2);
  EXPECT_FALSE(log.Poll());
  EXPECT_EQ(log.Line(1), "{\"step\":2}");
  EXPECT_EQ(log.Line(2), "");
}

TEST_F(RunLogTest, APositionHoldsAsLongAsTheLinesBeforeItAreTheSame) {
  Write("{\"step\":1}\n{\"step\":2}\n");
  RunLog log(folder_);
  log.Poll();
  const LogPosition two = log.position();
  EXPECT_EQ(ParseLogPosition(ToText(two)), two);
  Write("{\"step\":3}\n");
  log.Poll();
  EXPECT_TRUE(log.Holds(two));
  EXPECT_TRUE(log.Holds({}));
  RunLog again(folder_);  // another process
  again.Poll();
  EXPECT_TRUE(again.Holds(two));
  EXPECT_EQ(again.position(), log.position());

  Write("{\"step\":1}\n{\"step\":9}\n{\"step\":3}\n{\"step\":4}\n",
        std::ios::trunc);  // longer than before: noticed by its text
  EXPECT_TRUE(log.Poll());
  while (!log.caught_up()) log.Poll();
  EXPECT_EQ(log.position().rows, 4);
  EXPECT_FALSE(log.Holds(two));
}

TEST_F(RunLogTest, AReplacedFileStartsOver) {
  Write("{\"step\":1}\n");
  RunLog log(folder_);
  log.Poll();
  std::ofstream(folder_ / "other") << "{\"step\":1}\n{\"step\":5}\n";
  std::filesystem::rename(folder_ / "other", folder_ / "log.jsonl");
  log.Poll();
  while (!log.caught_up()) log.Poll();
  EXPECT_EQ(log.columns().Value("step", 1), 5);
  std::filesystem::remove(folder_ / "log.jsonl");
  EXPECT_TRUE(log.Poll());
  EXPECT_EQ(log.position().rows, 0);
}

TEST_F(RunLogTest, LongLogsAreReadInSlicesAndLongLinesAreSkipped) {
  const std::string filler(3 << 20, 'x');
  Write("{\"step\":1,\"text\":\"" + filler + "\"}\n{\"step\":2,\"text\":\"" + filler + "\"}\n");
  std::string beyond = "{\"step\":3,\"text\":\"";
  beyond.resize(16 << 20, 'x');  // as much as is read of a line; its rest looks like one
  Write(beyond + "{\"step\":9}\n{\"step\":4}\n");
  RunLog log(folder_);
  log.Poll();
  EXPECT_FALSE(log.caught_up());
  for (int i = 0; i < 100 && !log.caught_up(); ++i) log.Poll();
  ASSERT_TRUE(log.caught_up());
  EXPECT_EQ(log.columns().values(0), (std::vector<double>{1, 2, 4}));
}

TEST(LogPositionTest, OtherTextIsRefused) {
  for (const char* text : {"", "1", "1.", ".1", "-1.0", "1.0x", "x.1"}) {
    EXPECT_FALSE(ParseLogPosition(text)) << text;
  }
}

TEST_F(RunLogTest, LinksAreNotFollowed) {
  std::ofstream(folder_ / "elsewhere") << "secret\n";
  std::filesystem::create_symlink(folder_ / "elsewhere", folder_ / "run.yaml");
  EXPECT_TRUE(OpenRunFile(folder_, "elsewhere").is_open());
  EXPECT_FALSE(OpenRunFile(folder_, "run.yaml").is_open());
}

TEST_F(RunLogTest, TailsAreWholeLines) {
  Write("one\ntwo\nthree\nfo");
  const OpenedFile file = OpenRunFile(folder_, "log.jsonl");
  FileTail tail = ReadTail(file, -1, 2, 1000);
  EXPECT_EQ(tail.lines, "two\nthree\n");
  tail = ReadTail(file, tail.begin, 2, 1000);
  EXPECT_EQ(tail.lines, "one\n");
  EXPECT_EQ(tail.begin, 0);
  EXPECT_EQ(ReadTail(file, -1, 9, 10).lines, "three\n");  // the beginning of "two" was not read
}

TEST(ConfigKeysTest, AnyYamlIsFlattened) {
  EXPECT_EQ(ConfigKeys("a: 1\nb: {c: [x, y], d: {}}\n", "run.yaml"), Json::parse(R"([["a","1"],["b.c","[x, y]"]])"));
  EXPECT_EQ(ConfigKeys("", "run.yaml"), Json::array());
  EXPECT_ANY_THROW(ConfigKeys("- 1\n", "run.yaml"));
}

}  // namespace
}  // namespace trireme
