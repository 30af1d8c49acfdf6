// Lists in words, blank lines, numbers with nouns.
#include "core/base/text.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace trireme {
namespace {

TEST(TextTest, JoinsWords) {
  EXPECT_EQ(Join({}), "");
  EXPECT_EQ(Join({"a"}), "a");
  EXPECT_EQ(Join({"", "a", "", "b"}, "|"), "|a||b") << "an empty first word is a word";
}

TEST(TextTest, JoinsWhatPrints) {
  EXPECT_EQ(Join(std::set<int>{3, 1}, ","), "1,3");
  EXPECT_EQ(Join(std::vector<double>{0.5, 2}), "0.5, 2");
  EXPECT_EQ(Join(std::vector<bool>{true, false}), "true, false");
  constexpr int kNumbers[] = {1, 2};
  EXPECT_EQ(Join(kNumbers, " x "), "1 x 2");
}

TEST(TextTest, JoinsByWhatAFunctionSays) {
  const std::map<std::string, int> ages{{"ann", 3}, {"bob", 4}};
  EXPECT_EQ(Join(ages, "; ", [](const auto& each) { return each.first; }), "ann; bob");
  EXPECT_EQ(Join(ages, ", ", [](const auto& each) { return 2 * each.second; }), "6, 8");
}

TEST(TextTest, BlankLines) {
  for (const char* blank : {"", " ", "\t \r\n"}) EXPECT_TRUE(IsBlank(blank));
  for (const char* text : {"a", "  a", "\n{"}) EXPECT_FALSE(IsBlank(text));
}

TEST(TextTest, CountsWithNouns) {
  EXPECT_EQ(Counted(0, "rank"), "0 ranks");
  EXPECT_EQ(Counted(1, "rank"), "1 rank");
  EXPECT_EQ(Counted(2, "rank"), "2 ranks");
}

}  // namespace
}  // namespace trireme
