// Names of data sets on hubs, and the files that are kept for them.
#include "data/hub/hub_set.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "data/hub/hub_set_name.h"

namespace trireme {
namespace {

TEST(HubSetNameTest, HasParts) {
  const auto name = ParseHubSetName("MS::own/set-1.5:sub/test?revision=refs/pr/1");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->hub, SetHub::kModelScope);
  EXPECT_EQ(name->id(), "own/set-1.5");
  EXPECT_EQ(name->parts, (std::vector<std::string>{"sub", "test"}));
  EXPECT_EQ(name->revision, "refs/pr/1");
  EXPECT_EQ(ParseHubSetName("hf::a/b")->hub, SetHub::kHuggingFace);
  EXPECT_EQ(ParseHubSetName("a/b")->hub, SetHub::kDefault);
  EXPECT_TRUE(ParseHubSetName("a/b")->parts.empty());
}

TEST(HubSetNameTest, OthersAreNone) {
  for (const char* text :
       {"", "a", "a/b/c", "/a/b", "./a", "../a", "a/../b", "~/a", "a b/c", "a/b:", "a/b:x//y", "a/b:x/",
        "a/b?revision=", "a/b?revision=../x", "a/b?other=1", "a/*", "hf::a", "hf::", "a/b:x\ny"}) {
    EXPECT_FALSE(ParseHubSetName(text)) << text;
  }
}

class HubSetTest : public testing::Test {
 protected:
  HubSetTest() {
    std::string name = (std::filesystem::temp_directory_path() / "trireme-set-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    cache_ = name;
    std::filesystem::create_directories(cache_ / "hub");
    std::ofstream(cache_ / "a.jsonl") << "{}";
  }
  ~HubSetTest() override { std::filesystem::remove_all(cache_); }

  std::filesystem::path cache_;
};

TEST_F(HubSetTest, IsFoundAgain) {
  EXPECT_FALSE(FindHubSet(cache_, "a/b:c"));
  KeepHubSet(cache_, "a/b:c", {"abc", {cache_ / "a.jsonl", cache_ / "a.jsonl"}});
  const auto found = FindHubSet(cache_, "a/b:c");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->commit, "abc");
  EXPECT_EQ(found->files.size(), 2U);
  EXPECT_FALSE(FindHubSet(cache_, "a/b/c"));  // the same letters
}

TEST_F(HubSetTest, IsNotFoundWithoutItsFiles) {
  KeepHubSet(cache_, "a/b", {"abc", {cache_ / "a.jsonl"}});
  std::filesystem::remove(cache_ / "a.jsonl");
  EXPECT_FALSE(FindHubSet(cache_, "a/b"));
}

TEST_F(HubSetTest, OfBrokenFilesIsNotFound) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"name": "a/b"})", R"({"name": "a/b", "files": 1})", R"({"name": "a/b", "files": [1]})",
        R"({"name": 1, "files": []})", R"({"name": "a/b", "commit": 1, "files": []})"}) {
    std::ofstream(HubSetFile(cache_, "a/b")) << text;
    EXPECT_FALSE(FindHubSet(cache_, "a/b")) << text;
  }
}

}  // namespace
}  // namespace trireme
