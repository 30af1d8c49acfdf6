// Kinds of errors, their exit status, and what a failed check prints.
#include "core/base/error.h"

#include <gtest/gtest.h>

#include "core/base/log.h"

namespace trireme {
namespace {

TEST(ErrorTest, EachKindHasItsExitStatus) {
  EXPECT_EQ(InputError("x").exit_status(), 2);
  EXPECT_EQ(RuntimeError("x").exit_status(), 1);
  EXPECT_EQ(RemoteError("x").exit_status(), 1);
  EXPECT_EQ(InputError("x").kind(), ErrorKind::kInput);
  EXPECT_EQ(RuntimeError("x").kind(), ErrorKind::kRuntime);
  EXPECT_EQ(RemoteError("x").kind(), ErrorKind::kRemote);
}

TEST(ErrorTest, MessageIsTheArgumentsInARow) {
  EXPECT_STREQ(InputError("out=", 4097, " does not divide over tp=", 2).what(), "out=4097 does not divide over tp=2");
  EXPECT_EQ(Concat("a", 'b', 1.5, true), "ab1.5true");
}

TEST(CheckTest, PassingCheckEvaluatesNoMessage) {
  int evaluated = 0;
  TRIREME_CHECK(1 + 1 == 2) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
}

TEST(CheckTest, BindsAsOneStatement) {
  bool other_branch = false;
  if (false)
    TRIREME_CHECK(false) << "not reached";
  else
    other_branch = true;
  EXPECT_TRUE(other_branch);
}

TEST(CheckDeathTest, PrintsExpressionPlaceMessageAndTrace) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int size = 3;
  EXPECT_DEATH(TRIREME_CHECK(size == 4) << "size is " << size,
               "check failed: size == 4 \\(.*error_test\\.cc:[0-9]+\\) size is 3\n(.*\n)*.*CheckFailure");
}

TEST(CheckDeathTest, NamesTheRank) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        SetLogRank(5);
        TRIREME_CHECK(false);
      },
      "^\\[rank 5\\] check failed: false ");
}

}  // namespace
}  // namespace trireme
