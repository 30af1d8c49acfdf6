// Which directories are runs, and the ids they have. What is read of each: run_log_test.cc.
#include "board/run_folders.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace trireme {
namespace {

namespace fs = std::filesystem;

class RunFoldersTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
  }
  std::string MakeRun(const std::string& name) const {
    fs::create_directories(folder_ / name);
    std::ofstream(folder_ / name / "log.jsonl") << "{\"step\":1}\n";
    return (folder_ / name).string();
  }
  fs::path folder_;
};

TEST_F(RunFoldersTest, RunsInADirectoryComeAndGoAndLinksAreNone) {
  MakeRun("runs/first");
  fs::create_directories(folder_ / "runs/empty");
  fs::create_directory_symlink(MakeRun("elsewhere"), folder_ / "runs/link");
  RunFolders folders({(folder_ / "runs").string()});
  ASSERT_EQ(folders.runs().size(), 1U);
  EXPECT_EQ(folders.runs()[0]->id, "first");
  EXPECT_FALSE(folders.Scan());
  MakeRun("runs/second");
  EXPECT_TRUE(folders.Scan());
  EXPECT_NE(folders.Find("second"), nullptr);
  fs::remove_all(folder_ / "runs/first");
  EXPECT_TRUE(folders.Scan());
  EXPECT_EQ(folders.Find("first"), nullptr);
}

TEST_F(RunFoldersTest, DirectoriesOfOneNameHaveIdsOfTheirOwn) {
  const std::vector<std::string> given = {MakeRun("a/same"), MakeRun("b/same"), MakeRun("c/same")};
  const RunFolders folders(given);
  std::set<std::string> ids;
  for (const auto& run : folders.runs()) {
    ids.insert(run->id);
    EXPECT_EQ(folders.Find(run->id), run);
  }
  EXPECT_EQ(ids, (std::set<std::string>{"same", "same-2", "same-3"}));
}

}  // namespace
}  // namespace trireme
