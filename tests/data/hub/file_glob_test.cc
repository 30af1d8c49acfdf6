// Patterns of file names, by the rules of fsspec and `datasets`; whole repositories against `datasets` itself are in
// tests/parity/hub_data_test.py.
#include "data/hub/file_glob.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace trireme {
namespace {

using Files = std::vector<std::string>;

bool Matches(const std::string& pattern, const std::string& file) { return !MatchingFiles(pattern, {file}).empty(); }

TEST(FileGlob, StarsStayInAName) {
  EXPECT_TRUE(Matches("*.jsonl", "a.jsonl"));
  EXPECT_FALSE(Matches("*.jsonl", "a/b.jsonl"));
  EXPECT_TRUE(Matches("a*b*c", "aXbXbc"));
  EXPECT_FALSE(Matches("a*b*c", "aXc"));
  EXPECT_TRUE(Matches("a?c", "abc"));
  EXPECT_FALSE(Matches("a?c", "ac"));
  EXPECT_FALSE(Matches("a", "ab"));
}

TEST(FileGlob, TwoStarsAreFolders) {
  for (const char* file : {"train/a", "train/x/a", "y/train/a"}) EXPECT_TRUE(Matches("**/train/**", file)) << file;
  for (const char* file : {"train", "training/a", "a/train"}) EXPECT_FALSE(Matches("**/train/**", file)) << file;
  EXPECT_TRUE(Matches("**", "a/b/c"));
  EXPECT_TRUE(Matches("a/**/c", "a/c"));
  EXPECT_TRUE(Matches("a/**/c", "a/b/b/c"));
  EXPECT_FALSE(Matches("a/**", "a"));
  EXPECT_THROW(MatchingFiles("a**", {"ab"}), Error);
}

TEST(FileGlob, SetsOfLetters) {
  EXPECT_TRUE(Matches("x[-._ 0-9]y", "x-y"));
  EXPECT_TRUE(Matches("x[-._ 0-9]y", "x7y"));
  EXPECT_FALSE(Matches("x[-._ 0-9]y", "xay"));
  EXPECT_TRUE(Matches("x[!ab]y", "xcy"));
  EXPECT_FALSE(Matches("x[!ab]y", "xay"));
  EXPECT_TRUE(Matches("x[", "x["));
  EXPECT_TRUE(Matches("[]]", "]"));
}

TEST(FileGlob, HiddenFilesAreNamed) {
  for (const char* file : {".a", "b/.a", ".b/a", "__b/a"}) EXPECT_FALSE(Matches("**", file)) << file;
  EXPECT_TRUE(Matches("**/.*", "b/.a"));
  EXPECT_TRUE(Matches("__b/*", "__b/a"));
  EXPECT_TRUE(Matches("**", "__a"));
}

TEST(FileGlob, DescriptionsAreNamed) {
  EXPECT_EQ(MatchingFiles("**", {"b.json", "README.md", "a/config.json", "a.json"}), (Files{"a.json", "b.json"}));
  EXPECT_EQ(MatchingFiles("config.json", {"config.json"}), Files{"config.json"});
}

TEST(FileGlob, ManyStarsTakeNoTime) {
  const std::string name(200, 'a');
  std::string pattern, folders;
  for (int i = 0; i < 60; ++i) pattern += "a*", folders += "**/";
  EXPECT_FALSE(Matches(pattern + "b", name));
  EXPECT_FALSE(Matches(folders + "b", "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a"));
}

}  // namespace
}  // namespace trireme
