// Tensor descriptions, data buffers, attributes, options, limits: small objects that store what they are
// given.
#include <cmath>
#include <cstring>
#include <string>

#include "acl/acl_op_compiler.h"
#include "tests/twin/acl/acl_test.h"

namespace twin {
namespace {

class OpObjectsTest : public AclTest {};

TEST_F(OpObjectsTest, ATensorDescriptionKeepsShapeTypeAndFormat) {
  const int64_t dims[] = {2, 3, 5};
  aclTensorDesc* desc = aclCreateTensorDesc(ACL_FLOAT16, 3, dims, ACL_FORMAT_ND);
  ASSERT_NE(desc, nullptr);
  EXPECT_EQ(aclGetTensorDescType(desc), ACL_FLOAT16);
  EXPECT_EQ(aclGetTensorDescFormat(desc), ACL_FORMAT_ND);
  EXPECT_EQ(aclGetTensorDescNumDims(desc), 3u);
  EXPECT_EQ(aclGetTensorDescElementCount(desc), 30u);
  EXPECT_EQ(aclGetTensorDescSize(desc), 60u);
  int64_t dim = 0;
  EXPECT_OK(aclGetTensorDescDimV2(desc, 2, &dim));
  EXPECT_EQ(dim, 5);
  EXPECT_REFUSED(aclGetTensorDescDimV2(desc, 3, &dim), ACL_ERROR_INVALID_PARAM, "no dim 3 of 3");
  aclSetTensorDescName(desc, "x");
  EXPECT_STREQ(aclGetTensorDescName(desc), "x");
  EXPECT_OK(aclSetTensorFormat(desc, ACL_FORMAT_FRACTAL_NZ));
  EXPECT_OK(aclSetTensorShape(desc, 2, dims));
  EXPECT_EQ(aclGetTensorDescNumDims(desc), 3u);  // the storage shape is separate
  EXPECT_OK(aclSetTensorPlaceMent(desc, ACL_MEMTYPE_HOST));
  EXPECT_REFUSED(aclSetTensorPlaceMent(desc, static_cast<aclMemType>(7)), ACL_ERROR_INVALID_PARAM, "memory type 7");
  aclDestroyTensorDesc(desc);
  EXPECT_EQ(aclCreateTensorDesc(ACL_FLOAT, 2, nullptr, ACL_FORMAT_ND), nullptr);
  EXPECT_EQ(aclGetTensorDescType(nullptr), ACL_DT_UNDEFINED);
}

TEST_F(OpObjectsTest, ShapesMayBeUnknown) {
  const int64_t rank_unknown[] = {-2};
  aclTensorDesc* desc = aclCreateTensorDesc(ACL_FLOAT, 1, rank_unknown, ACL_FORMAT_ND);
  EXPECT_EQ(aclGetTensorDescNumDims(desc), ACL_UNKNOWN_RANK);
  aclDestroyTensorDesc(desc);
  desc = aclCreateTensorDesc(ACL_FLOAT, 0, nullptr, ACL_FORMAT_ND);  // a scalar
  EXPECT_EQ(aclGetTensorDescElementCount(desc), 1u);
  aclDestroyTensorDesc(desc);
}

TEST_F(OpObjectsTest, ADataBufferKeepsAddressAndSize) {
  int value = 0;
  aclDataBuffer* buffer = aclCreateDataBuffer(&value, sizeof value);
  EXPECT_EQ(aclGetDataBufferAddr(buffer), &value);
  EXPECT_EQ(aclGetDataBufferSizeV2(buffer), sizeof value);
  EXPECT_OK(aclUpdateDataBuffer(buffer, nullptr, 0));
  EXPECT_EQ(aclGetDataBufferAddr(buffer), nullptr);
  EXPECT_OK(aclDestroyDataBuffer(buffer));
  EXPECT_REFUSED(aclDestroyDataBuffer(nullptr), ACL_ERROR_INVALID_PARAM, "dataBuffer is null");
}

TEST_F(OpObjectsTest, AttributesOfEveryTypeAreAccepted) {
  aclopAttr* attr = aclopCreateAttr();
  const uint8_t flags[] = {1, 0};
  const int64_t numbers[] = {1, 2, 3};
  const float reals[] = {0.5f};
  const char* words[] = {"a", "b"};
  const aclDataType types[] = {ACL_FLOAT};
  const int lengths[] = {2, 1};
  const int64_t* lists[] = {numbers, numbers};
  EXPECT_OK(aclopSetAttrBool(attr, "bool", 1));
  EXPECT_OK(aclopSetAttrInt(attr, "int", 7));
  EXPECT_OK(aclopSetAttrFloat(attr, "float", 1.5f));
  EXPECT_OK(aclopSetAttrString(attr, "string", "text"));
  EXPECT_OK(aclopSetAttrDataType(attr, "type", ACL_BF16));
  EXPECT_OK(aclopSetAttrListBool(attr, "bools", 2, flags));
  EXPECT_OK(aclopSetAttrListInt(attr, "ints", 3, numbers));
  EXPECT_OK(aclopSetAttrListFloat(attr, "floats", 1, reals));
  EXPECT_OK(aclopSetAttrListString(attr, "strings", 2, words));
  EXPECT_OK(aclopSetAttrListDataType(attr, "types", 1, types));
  EXPECT_OK(aclopSetAttrListListInt(attr, "lists", 2, lengths, lists));
  EXPECT_REFUSED(aclopSetAttrInt(attr, nullptr, 7), ACL_ERROR_INVALID_PARAM, "attrName is null");
  EXPECT_REFUSED(aclopSetAttrListInt(attr, "ints", -1, numbers), ACL_ERROR_INVALID_PARAM, "-1 values");
  EXPECT_REFUSED(aclopSetAttrBool(nullptr, "bool", 1), ACL_ERROR_INVALID_PARAM, "attr is null");
  aclopDestroyAttr(attr);
}

TEST_F(OpObjectsTest, AMissingOperatorIsNamed) {
  EXPECT_REFUSED(aclopCompileAndExecute("Conv2D", 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, ACL_ENGINE_SYS,
                                        ACL_COMPILE_SYS, nullptr, nullptr),
                 ACL_ERROR_OP_NOT_FOUND, "no operator 'Conv2D'");
}

TEST_F(OpObjectsTest, CompileOptionsAreKept) {
  ASSERT_EQ(aclGetCompileoptSize(ACL_OP_JIT_COMPILE), 8u);  // has a default, which torch_npu reads
  char value[8];
  EXPECT_OK(aclGetCompileopt(ACL_OP_JIT_COMPILE, value, sizeof value));
  EXPECT_STREQ(value, "disable");
  EXPECT_OK(aclSetCompileopt(ACL_OP_JIT_COMPILE, "enable"));
  EXPECT_OK(aclGetCompileopt(ACL_OP_JIT_COMPILE, value, sizeof value));
  EXPECT_STREQ(value, "enable");
  EXPECT_EQ(aclGetCompileoptSize(ACL_DEBUG_DIR), 0u);
  EXPECT_REFUSED(aclGetCompileopt(ACL_OP_JIT_COMPILE, value, 3), ACL_ERROR_INVALID_PARAM, "longer than 3");
}

// A caller that continues after the error must not read what was never computed.
TEST_F(OpObjectsTest, AMissingOperatorFailsItsStream) {
  aclrtStream stream = nullptr;
  ASSERT_OK(aclrtCreateStream(&stream));
  void* memory = nullptr;
  ASSERT_OK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
  std::memset(memory, 1, 64);
  EXPECT_OK(aclrtMemsetAsync(memory, 64, 2, 64, stream));
  EXPECT_REFUSED(aclopCompileAndExecuteV2("Conv2D", 0, nullptr, nullptr, 0, nullptr, nullptr, nullptr, ACL_ENGINE_SYS,
                                          ACL_COMPILE_SYS, nullptr, stream),
                 ACL_ERROR_OP_NOT_FOUND, "no operator 'Conv2D'");
  EXPECT_REFUSED(aclrtSynchronizeStream(stream), ACL_ERROR_OP_NOT_FOUND, "no operator 'Conv2D'");
  char copy[64] = {};
  EXPECT_REFUSED(aclrtMemcpyAsync(copy, 64, memory, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream), ACL_ERROR_OP_NOT_FOUND,
                 "no operator 'Conv2D'");
  EXPECT_REFUSED(aclrtSynchronizeDevice(), ACL_ERROR_OP_NOT_FOUND, "no operator 'Conv2D'");
  EXPECT_EQ(static_cast<char*>(memory)[63], 2);  // what was queued before it has run
  EXPECT_OK(aclrtDestroyStream(stream));
  EXPECT_OK(aclrtSynchronizeDevice());
  EXPECT_OK(aclrtFree(memory));
}

TEST_F(OpObjectsTest, HalfPrecisionRoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<aclFloat16>(bits);
    const float value = aclFloat16ToFloat(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(aclFloat16ToFloat(aclFloatToFloat16(value))));
    } else {
      ASSERT_EQ(aclFloatToFloat16(value), half) << bits;
    }
  }
  EXPECT_EQ(aclFloatToFloat16(1.0f + 0x1p-11f), 0x3C00);      // a tie, to even
  EXPECT_EQ(aclFloatToFloat16(1.0f + 3 * 0x1p-11f), 0x3C02);  // a tie, to even
  EXPECT_EQ(aclFloatToFloat16(65519.0f), 0x7BFF);
  EXPECT_EQ(aclFloatToFloat16(65520.0f), 0x7C00);
  EXPECT_EQ(aclFloatToFloat16(-0x1p-25f), 0x8000);
  EXPECT_EQ(aclFloatToFloat16(0x1.8p-25f), 0x0001);
}

TEST_F(OpObjectsTest, DumpingIsStartedAndEnded) {
  EXPECT_REFUSED(aclmdlSetDump("x.json"), ACL_ERROR_DUMP_NOT_RUN, "before aclmdlInitDump");
  EXPECT_OK(aclmdlInitDump());
  EXPECT_REFUSED(aclmdlInitDump(), ACL_ERROR_DUMP_ALREADY_RUN, "a second time");
  EXPECT_REFUSED(aclmdlSetDump("/no/such.json"), ACL_ERROR_INVALID_FILE, "cannot be read");
  EXPECT_OK(aclmdlFinalizeDump());
  EXPECT_REFUSED(aclmdlFinalizeDump(), ACL_ERROR_DUMP_NOT_RUN, "before aclmdlInitDump");
}

TEST_F(OpObjectsTest, CoreLimitsHoldForDeviceStreamAndThread) {
  uint32_t value = 0;
  EXPECT_OK(aclrtGetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, &value));
  EXPECT_EQ(value, 20u);
  EXPECT_REFUSED(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 21), ACL_ERROR_INVALID_PARAM, "wanted 1 to 20");
  EXPECT_OK(aclrtSetDeviceResLimit(0, ACL_RT_DEV_RES_CUBE_CORE, 8));
  EXPECT_OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &value));
  EXPECT_EQ(value, 8u);
  EXPECT_OK(aclrtSetStreamResLimit(nullptr, ACL_RT_DEV_RES_CUBE_CORE, 4));
  EXPECT_OK(aclrtUseStreamResInCurrentThread(nullptr));
  EXPECT_OK(aclrtGetResInCurrentThread(ACL_RT_DEV_RES_CUBE_CORE, &value));
  EXPECT_EQ(value, 4u);
  EXPECT_OK(aclrtUnuseStreamResInCurrentThread());
  EXPECT_OK(aclrtResetStreamResLimit(nullptr));
  EXPECT_OK(aclrtResetDeviceResLimit(0));
  EXPECT_OK(aclrtGetStreamResLimit(nullptr, ACL_RT_DEV_RES_CUBE_CORE, &value));
  EXPECT_EQ(value, 20u);
}

TEST_F(OpObjectsTest, UnsupportedFeaturesAreReported) {
  EXPECT_REFUSED(aclrtMemUceRepair(0, nullptr, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                 "aclrtMemUceRepair: not supported by the CANN twin");
  EXPECT_REFUSED(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION), ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "saturate");
  EXPECT_OK(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN));
}

TEST_F(OpObjectsTest, OverflowSwitchesGroupsAndSystemOptions) {
  uint32_t flag = 9;
  EXPECT_OK(aclrtSetStreamOverflowSwitch(nullptr, 1));
  EXPECT_OK(aclrtGetStreamOverflowSwitch(nullptr, &flag));
  EXPECT_EQ(flag, 1u);
  uint32_t groups = 0;
  EXPECT_OK(aclrtGetGroupCount(&groups));
  EXPECT_EQ(groups, 1u);
  EXPECT_REFUSED(aclrtSetGroup(5), ACL_ERROR_RT_GROUP_NOT_CREATE, "no group 5");
  aclrtGroupInfo* info = aclrtCreateGroupInfo();
  uint32_t cores = 0;
  size_t written = 0;
  EXPECT_OK(aclrtGetAllGroupInfo(info));
  EXPECT_OK(aclrtGetGroupInfoDetail(info, 0, ACL_GROUP_AICORE_INT, &cores, sizeof cores, &written));
  EXPECT_EQ(cores, 20u);
  EXPECT_OK(aclrtDestroyGroupInfo(info));
  int64_t value = 0;
  EXPECT_OK(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
  EXPECT_OK(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value));
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace twin
