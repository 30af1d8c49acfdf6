// Several input errors as one, and what is not collected.
#include "core/base/problems.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Problems, NoneOneAndSeveral) {
  Problems problems;
  EXPECT_NO_THROW(problems.ThrowIfAny());
  problems.Try([] { throw InputError("a"); });
  try {
    problems.ThrowIfAny();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a");
    EXPECT_EQ(dynamic_cast<const InputErrors*>(&error), nullptr);
  }
  problems.Try([] { throw InputError("b"); });
  problems.Try([] { throw InputError("a"); });  // is reported once
  problems.Try([&] { problems.ThrowIfAny(); });
  try {
    problems.ThrowIfAny();
    FAIL();
  } catch (const InputErrors& errors) {
    EXPECT_EQ(errors.lines(), (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(errors.exit_status(), 2);
  }
}

TEST(Problems, OtherErrorsPropagate) {
  Problems problems;
  EXPECT_THROW(problems.Try([] { throw RuntimeError("the disk is full"); }), Error);
  EXPECT_TRUE(problems.empty());
}

}  // namespace
}  // namespace trireme
