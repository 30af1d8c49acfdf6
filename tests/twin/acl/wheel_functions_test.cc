// What newer torch_npu wheels link: profiler reports are accepted and counted, the rest is refused by name.
#include "twin/acl/wheel_functions.h"

#include <string>

#include "tests/twin/acl/acl_test.h"

namespace twin {
namespace {

using WheelFunctionsTest = AclTest;

TEST_F(WheelFunctionsTest, ReportsToTheProfilerAreCounted) {
  const uint64_t before = twinProfilerReports();
  const int data = 7;
  EXPECT_OK(MsprofReportApi(1, &data));
  EXPECT_OK(MsprofReportCompactInfo(0, &data, sizeof data));
  EXPECT_OK(MsprofReportAdditionalInfo(0, &data, sizeof data));
  EXPECT_EQ(twinProfilerReports(), before + 3);
}

TEST_F(WheelFunctionsTest, ReportsWithoutDataAreRefused) {
  const uint64_t before = twinProfilerReports();
  const int data = 7;
  EXPECT_REFUSED(MsprofReportApi(1, nullptr), ACL_ERROR_INVALID_PARAM, "MsprofReportApi");
  EXPECT_REFUSED(MsprofReportCompactInfo(1, &data, 0), ACL_ERROR_INVALID_PARAM, "the length is 0");
  EXPECT_REFUSED(MsprofReportAdditionalInfo(1, nullptr, 4), ACL_ERROR_INVALID_PARAM, "data");
  EXPECT_EQ(twinProfilerReports(), before);
}

TEST_F(WheelFunctionsTest, ACallbackIsAcceptedAndNeverCalled) {
  static bool called = false;
  int (*handler)(uint32_t, void*, uint32_t) = [](uint32_t, void*, uint32_t) {
    called = true;
    return 0;
  };
  EXPECT_OK(MsprofRegisterCallback(3, reinterpret_cast<void*>(handler)));
  EXPECT_FALSE(called);
  EXPECT_REFUSED(MsprofRegisterCallback(3, nullptr), ACL_ERROR_INVALID_PARAM, "handler");
}

TEST_F(WheelFunctionsTest, HashesTellTextsApart) {
  const std::string one = "aclnnAdd", other = "aclnnMul";
  EXPECT_EQ(MsprofGetHashId(one.data(), one.size()), MsprofGetHashId(std::string(one).data(), one.size()));
  EXPECT_NE(MsprofGetHashId(one.data(), one.size()), MsprofGetHashId(other.data(), other.size()));
  EXPECT_NE(MsprofGetHashId(one.data(), one.size()), MsprofGetHashId(one.data(), one.size() - 1));
  EXPECT_EQ(MsprofGetHashId(nullptr, 3), 0u);
  EXPECT_EQ(MsprofGetHashId("", 0), 0u);
}

TEST_F(WheelFunctionsTest, TimeDoesNotRunBackwards) {
  const uint64_t first = MsprofSysCycleTime();
  EXPECT_GT(first, 0u);
  EXPECT_GE(MsprofSysCycleTime(), first);
}

TEST_F(WheelFunctionsTest, BinariesAndSharedMemoryAreRefusedByName) {
  constexpr int32_t kUnsupported = ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
  const std::string why = ": not supported by the CANN twin";
  void* handle = nullptr;
  uint64_t shareable = 0;
  int32_t pid = 1;
  EXPECT_REFUSED(aclrtBinaryLoadFromData("", 0, nullptr, &handle), kUnsupported, "BinaryLoadFromData" + why);
  EXPECT_REFUSED(aclrtGetFunctionAddr(nullptr, &handle, &handle), kUnsupported, "GetFunctionAddr" + why);
  EXPECT_REFUSED(rtDevBinaryRegister(nullptr, &handle), kUnsupported, "rtDevBinaryRegister" + why);
  EXPECT_REFUSED(rtFunctionRegister(nullptr, nullptr, "k", nullptr, 0), kUnsupported, "rtFunctionRegister" + why);
  EXPECT_REFUSED(rtKernelLaunch(nullptr, 1, nullptr, 0, nullptr, nullptr), kUnsupported, "rtKernelLaunch" + why);
  EXPECT_REFUSED(aclrtMemExportToShareableHandle(nullptr, ACL_MEM_HANDLE_TYPE_NONE, 0, &shareable), kUnsupported,
                 "aclrtMemExportToShareableHandle" + why);
  EXPECT_REFUSED(aclrtMemImportFromShareableHandle(1, 0, &handle), kUnsupported,
                 "aclrtMemImportFromShareableHandle" + why);
  EXPECT_REFUSED(aclrtMemSetPidToShareableHandle(1, &pid, 1), kUnsupported, "aclrtMemSetPidToShareableHandle" + why);
}

}  // namespace
}  // namespace twin
