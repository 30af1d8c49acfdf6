// For the tests of kernels in the style of third-party code: a stream, memory, and each kind of build.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "acl/acl.h"

namespace ascendc_test {

enum class Build { kFast, kChecked, kStrict };  // strict: checked, and without automatic synchronisation

class Samples : public ::testing::TestWithParam<Build> {
 protected:
  void SetUp() override {
    static const aclError once = aclInit(nullptr);
    ASSERT_TRUE(once == ACL_SUCCESS || once == ACL_ERROR_REPEAT_INITIALIZE);
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    ASSERT_EQ(aclrtCreateStream(&stream_), ACL_SUCCESS);
    setenv("TWIN_CHECKED", GetParam() == Build::kFast ? "0" : "1", 1);
    setenv("TWIN_AUTO_SYNC", GetParam() == Build::kStrict ? "0" : "1", 1);
  }
  void TearDown() override {
    unsetenv("TWIN_CHECKED");
    unsetenv("TWIN_AUTO_SYNC");
    aclrtResetDevice(0);
  }
  template <typename T>
  T* Memory(size_t count) {
    void* memory = nullptr;
    EXPECT_EQ(aclrtMalloc(&memory, count * sizeof(T), ACL_MEM_MALLOC_NORMAL_ONLY), ACL_SUCCESS);
    EXPECT_EQ(aclrtMemset(memory, count * sizeof(T), 0, count * sizeof(T)), ACL_SUCCESS);
    return static_cast<T*>(memory);
  }
  void ExpectDone() { ASSERT_EQ(aclrtSynchronizeStream(stream_), ACL_SUCCESS) << aclGetRecentErrMsg(); }
  aclrtStream stream_ = nullptr;
};
inline const auto kEachBuild = ::testing::Values(Build::kFast, Build::kChecked, Build::kStrict);

}  // namespace ascendc_test
