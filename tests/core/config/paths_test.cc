// "~" in every path and in nothing else; and where two configurations differ.
#include "core/config/paths.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

#include "core/base/home_path.h"
#include "core/config/compare.h"
#include "core/config/load.h"

namespace trireme {
namespace {

class PathsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* home = std::getenv("HOME")) before_ = home;
    setenv("HOME", "/home/me", 1);
  }
  void TearDown() override { setenv("HOME", before_.c_str(), 1); }
  std::string before_;
};

TEST_F(PathsTest, HomeAsInAShell) {
  EXPECT_EQ(ExpandHome("~"), "/home/me");
  EXPECT_EQ(ExpandHome("~/a/~"), "/home/me/a/~");
  EXPECT_EQ(ExpandHome("a/~"), "a/~");
  EXPECT_EQ(ExpandHome(""), "");
  EXPECT_EQ(ExpandHome("~nobody_has_this_name/a"), "~nobody_has_this_name/a");
  const passwd* me = getpwuid(getuid());
  ASSERT_NE(me, nullptr);
  EXPECT_EQ(ExpandHome(std::string("~") + me->pw_name + "/a"), std::string(me->pw_dir) + "/a");
}

TEST_F(PathsTest, EveryPathOfTheConfiguration) {
  const Config config = ParseConfig(
      "model: {path: ~/m}\ntuning: {adapters: ~/a}\nrun: {resume: ~/r}\n"
      "data: {train: [~/t#5, u], valid: [~/v], template: ~/j, system: ~/no path}\n",
      "run.yaml", {"run.output=~/o", "data.cache=~/c"});
  EXPECT_EQ(config.model().path(), "/home/me/m");
  EXPECT_EQ(config.tuning().adapters(), "/home/me/a");
  EXPECT_EQ(config.run().resume(), "/home/me/r");
  EXPECT_EQ(config.data().train(0), "/home/me/t#5");
  EXPECT_EQ(config.data().train(1), "u");
  EXPECT_EQ(config.data().valid(0), "/home/me/v");
  EXPECT_EQ(config.data().template_(), "/home/me/j");
  EXPECT_EQ(config.run().output(), "/home/me/o");
  EXPECT_EQ(config.data().cache(), "/home/me/c");
  EXPECT_EQ(config.data().system(), "~/no path");
}

TEST(CompareTest, NamesEachKeyWithBothValues) {
  const Config before = ParseConfig("optimizer: {lr: 1.0e-4}\ndata: {train: [a]}\n", "run.yaml");
  const Config now = ParseConfig("optimizer: {lr: 5.0e-5}\ndata: {train: [a, b]}\n", "run.yaml");
  EXPECT_TRUE(DifferingKeys(now, now).empty());
  EXPECT_EQ(ToText(DifferingKeys(before, now)),
            "data.train was [a], now [a, b]; optimizer.lr was 1.0e-04, now 5.0e-05");
}

}  // namespace
}  // namespace trireme
