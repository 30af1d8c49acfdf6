// aclInit and aclFinalize, once per process each. The order of the calls is the test, so there is only one.
#include <gtest/gtest.h>

#include "tests/twin/acl/acl_test.h"

namespace twin {
namespace {

TEST(Init, OncePerProcessAndBeforeEverythingElse) {
  EXPECT_REFUSED(aclrtSetDevice(0), ACL_ERROR_UNINITIALIZE, "called before aclInit");
  aclrtContext context = nullptr;
  EXPECT_REFUSED(aclrtCreateContext(&context, 0), ACL_ERROR_UNINITIALIZE, "before aclInit");
  EXPECT_REFUSED(aclFinalize(), ACL_ERROR_UNINITIALIZE, "before aclInit");
  EXPECT_REFUSED(aclInit("/no/such/file.json"), ACL_ERROR_INVALID_FILE, "'/no/such/file.json' cannot be read");
  ASSERT_OK(aclInit(nullptr));
  EXPECT_REFUSED(aclInit(nullptr), ACL_ERROR_REPEAT_INITIALIZE, "a second time");

  ASSERT_OK(aclrtSetDevice(0));
  aclrtStream stream = nullptr;
  ASSERT_OK(aclrtCreateStream(&stream));
  Gate gate;
  ASSERT_OK(gate.Block(stream));
  gate.WaitEntered();
  EXPECT_OK(aclFinalize());  // ends the running task too
  EXPECT_REFUSED(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE, "a second time");
  EXPECT_REFUSED(aclrtSetDevice(0), ACL_ERROR_UNINITIALIZE, "after aclFinalize");
  EXPECT_REFUSED(aclrtSynchronizeStream(stream), ACL_ERROR_RT_CONTEXT_NULL, "no context");
}

TEST(Init, VersionsAreThoseOfTheHeaders) {
  int32_t major = 0;
  int32_t minor = 0;
  int32_t patch = -1;
  EXPECT_OK(aclrtGetVersion(&major, &minor, &patch));
  EXPECT_EQ(major, ACL_MAJOR_VERSION);
  EXPECT_EQ(minor, ACL_MINOR_VERSION);
  EXPECT_EQ(patch, ACL_PATCH_VERSION);
  aclCANNPackageVersion version;
  EXPECT_OK(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &version));
  EXPECT_STREQ(version.majorVersion, "8");
  EXPECT_REFUSED(aclsysGetCANNVersion(static_cast<aclCANNPackageName>(99), &version), ACL_ERROR_INVALID_PARAM, "99");
}

}  // namespace
}  // namespace twin
