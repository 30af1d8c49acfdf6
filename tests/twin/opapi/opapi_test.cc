// libopapi through its C interface, as a program without torch calls it: objects, workspaces, streams,
// errors. What each operator computes is compared through torch_npu (tests/parity/npu_operators_test.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/twin/acl/acl_test.h"

struct aclTensor;
struct aclScalar;
struct aclTensorList;
struct aclOpExecutor;

extern "C" {
aclTensor* aclCreateTensor(const int64_t* dims, uint64_t dim_count, aclDataType type, const int64_t* strides,
                           int64_t offset, aclFormat format, const int64_t* storage_dims, uint64_t storage_dim_count,
                           void* data);
aclScalar* aclCreateScalar(void* value, aclDataType type);
aclTensorList* aclCreateTensorList(const aclTensor* const* tensors, uint64_t count);
int aclDestroyTensor(const aclTensor* tensor);
int aclDestroyScalar(const aclScalar* scalar);
int aclDestroyTensorList(const aclTensorList* list);
int aclGetViewShape(const aclTensor* tensor, int64_t** dims, uint64_t* dim_count);
int aclnnAddGetWorkspaceSize(const aclTensor* self, const aclTensor* other, const aclScalar* alpha,
                             const aclTensor* out, uint64_t* workspace, aclOpExecutor** executor);
int aclnnAdd(void* workspace, uint64_t bytes, aclOpExecutor* executor, aclrtStream stream);
int aclnnInplaceMulsGetWorkspaceSize(const aclTensor* self, const aclScalar* other, uint64_t* workspace,
                                     aclOpExecutor** executor);
int aclnnInplaceMuls(void* workspace, uint64_t bytes, aclOpExecutor* executor, aclrtStream stream);
int aclnnCatGetWorkspaceSize(const aclTensorList* tensors, int64_t dim, const aclTensor* out, uint64_t* workspace,
                             aclOpExecutor** executor);
int aclnnCat(void* workspace, uint64_t bytes, aclOpExecutor* executor, aclrtStream stream);
int aclnnNonzeroGetWorkspaceSize(const aclTensor* self, const aclTensor* out, uint64_t* workspace,
                                 aclOpExecutor** executor);
int aclnnNonzero(void* workspace, uint64_t bytes, aclOpExecutor* executor, aclrtStream stream);
int aclnnDynamicQuantGetWorkspaceSize(const aclTensor* x, const aclTensor* smooth, const aclTensor* out,
                                      const aclTensor* scale, uint64_t* workspace, aclOpExecutor** executor);
int aclnnDynamicQuant(void* workspace, uint64_t bytes, aclOpExecutor* executor, aclrtStream stream);
const char* twinOperatorName(size_t index);
uint64_t twinOperatorCalls(size_t index);
uint64_t twinOperatorLargestBytes(size_t index);
}

namespace twin {
namespace {

constexpr int kNull = 161001;

using Dims = std::vector<int64_t>;

class OpapiTest : public AclTest {
 protected:
  void SetUp() override {
    AclTest::SetUp();
    ASSERT_OK(aclrtCreateStream(&stream_));
    void* memory = nullptr;
    ASSERT_OK(aclrtMalloc(&memory, kFloats * sizeof(float), ACL_MEM_MALLOC_HUGE_FIRST));
    memory_ = static_cast<float*>(memory);
    std::memset(memory_, 0, kFloats * sizeof(float));
  }
  void TearDown() override {
    aclrtDestroyStreamForce(stream_);
    EXPECT_OK(aclrtFree(memory_));
    AclTest::TearDown();
  }

  // A view of device memory.
  aclTensor* View(const Dims& dims, const Dims& strides, int64_t offset = 0, aclDataType type = ACL_FLOAT) {
    const int64_t storage = kFloats;
    return aclCreateTensor(dims.data(), dims.size(), type, strides.data(), offset, ACL_FORMAT_ND, &storage, 1, memory_);
  }
  aclScalar* Number(double value) { return aclCreateScalar(&value, ACL_DOUBLE); }

  // Both calls of out = self + other; the objects are gone when it returns.
  int Add(aclTensor* self, aclTensor* other, aclTensor* out) {
    aclScalar* one = Number(1);
    uint64_t workspace = 1;
    aclOpExecutor* executor = nullptr;
    int result = aclnnAddGetWorkspaceSize(self, other, one, out, &workspace, &executor);
    if (result == ACL_SUCCESS) result = aclnnAdd(nullptr, workspace, executor, stream_);
    for (aclTensor* tensor : {self, other, out}) aclDestroyTensor(tensor);
    aclDestroyScalar(one);
    return result;
  }

  void MultiplyInPlace(aclTensor* self, double factor) {
    aclScalar* number = Number(factor);
    uint64_t workspace = 1;
    aclOpExecutor* executor = nullptr;
    ASSERT_OK(aclnnInplaceMulsGetWorkspaceSize(self, number, &workspace, &executor));
    ASSERT_OK(aclnnInplaceMuls(nullptr, workspace, executor, stream_));
    aclDestroyTensor(self);
    aclDestroyScalar(number);
  }

  static constexpr int64_t kFloats = 4096;
  aclrtStream stream_ = nullptr;
  float* memory_ = nullptr;
};

TEST_F(OpapiTest, ComputesOnViewsWithStridesAndOffset) {
  for (int i = 0; i < 6; ++i) memory_[i] = static_cast<float>(i);
  // out[r][c] = x[r][c] + y[c], where x is the transpose of a [3, 2], y is broadcast, out at offset 100
  EXPECT_OK(Add(View({2, 3}, {1, 2}), View({3}, {1}), View({2, 3}, {3, 1}, 100)));
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  EXPECT_EQ(std::vector<float>(memory_ + 100, memory_ + 106), (std::vector<float>{0, 3, 6, 1, 4, 7}));
}

TEST_F(OpapiTest, RunsOnTheStreamAndInItsOrder) {
  Gate gate;
  ASSERT_OK(gate.Block(stream_));
  gate.WaitEntered();
  memory_[0] = 5;
  EXPECT_OK(Add(View({1}, {1}), View({1}, {1}), View({1}, {1}, 1)));
  MultiplyInPlace(View({1}, {1}, 1), 3);
  EXPECT_EQ(memory_[1], 0) << "an operator ran on the caller's thread";
  memory_[0] = 7;  // read when the stream reaches it, not at the call
  gate.Open();
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  EXPECT_EQ(memory_[1], 42);
}

TEST_F(OpapiTest, TwoStreamsDoNotWaitForEachOther) {
  Gate gate;
  aclrtStream held = nullptr;
  ASSERT_OK(aclrtCreateStream(&held));
  ASSERT_OK(gate.Block(held));
  memory_[0] = 2;
  EXPECT_OK(Add(View({1}, {1}), View({1}, {1}), View({1}, {1}, 1)));
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  EXPECT_EQ(memory_[1], 4);
  gate.Open();
  EXPECT_OK(aclrtDestroyStreamForce(held));
}

TEST_F(OpapiTest, RefusesWhatIsMissingByName) {
  aclTensor* x = View({1}, {1});
  aclScalar* one = Number(1);
  uint64_t workspace = 0;
  aclOpExecutor* executor = nullptr;
  EXPECT_REFUSED(aclnnAddGetWorkspaceSize(x, nullptr, one, x, &workspace, &executor), kNull,
                 "aclnnAdd: a tensor is null");
  EXPECT_REFUSED(aclnnAddGetWorkspaceSize(x, x, nullptr, x, &workspace, &executor), kNull,
                 "aclnnAdd: a scalar is null");
  EXPECT_REFUSED(aclnnAddGetWorkspaceSize(x, x, one, x, nullptr, &executor), kNull, "workspaceSize is null");
  EXPECT_REFUSED(aclnnAddGetWorkspaceSize(x, x, one, x, &workspace, nullptr), kNull, "executor is null");
  EXPECT_REFUSED(aclnnAdd(nullptr, 0, nullptr, stream_), kNull, "executor is null");
  EXPECT_REFUSED(aclGetViewShape(nullptr, nullptr, nullptr), kNull, "aclGetViewShape");
  RecentWords();
  EXPECT_EQ(View({1}, {1}, 0, ACL_STRING), nullptr);
  EXPECT_NE(RecentWords().find("does not support aclDataType 13"), std::string::npos);
  aclDestroyTensor(x);
  aclDestroyScalar(one);
}

TEST_F(OpapiTest, AFailureBecomesTheStreamsError) {
  EXPECT_OK(Add(View({2}, {1}), View({3}, {1}), View({3}, {1}, 10)));  // shapes are checked when it runs
  EXPECT_REFUSED(aclrtSynchronizeStream(stream_), ACL_ERROR_RT_AICORE_EXCEPTION, "aclnnAdd");
  EXPECT_REFUSED(Add(View({1}, {1}), View({1}, {1}), View({1}, {1})), ACL_ERROR_RT_AICORE_EXCEPTION, "size of tensor");
}

TEST_F(OpapiTest, TakesListsAndOwnsTheirTensors) {
  for (int i = 0; i < 4; ++i) memory_[i] = static_cast<float>(i + 1);
  const aclTensor* parts[] = {View({2}, {1}, 2), View({2}, {1}, 0)};
  aclTensorList* list = aclCreateTensorList(parts, 2);
  aclTensor* out = View({4}, {1}, 8);
  uint64_t workspace = 1;
  aclOpExecutor* executor = nullptr;
  ASSERT_OK(aclnnCatGetWorkspaceSize(list, 0, out, &workspace, &executor));
  EXPECT_EQ(workspace, 0u);
  ASSERT_OK(aclnnCat(nullptr, workspace, executor, stream_));
  aclDestroyTensorList(list);
  aclDestroyTensor(out);
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  EXPECT_EQ(std::vector<float>(memory_ + 8, memory_ + 12), (std::vector<float>{3, 4, 1, 2}));
}

// The wheel calls its newer form instead.
TEST_F(OpapiTest, QuantisesEachRowByItsLargest) {
  const float rows[] = {1, -127, 63.6F, 0, 0.5F, 0, 0.25F, -0.5F}, smooth[] = {1, 1, 2, 1};
  std::copy_n(rows, 8, memory_);
  std::copy_n(smooth, 4, memory_ + 8);
  aclTensor *x = View({2, 4}, {4, 1}), *factors = View({4}, {1}, 8), *scale = View({2}, {1}, 12);
  aclTensor* out = View({2, 4}, {4, 1}, 64, ACL_INT8);
  uint64_t workspace = 1;
  aclOpExecutor* executor = nullptr;
  ASSERT_OK(aclnnDynamicQuantGetWorkspaceSize(x, factors, out, scale, &workspace, &executor));
  ASSERT_OK(aclnnDynamicQuant(nullptr, workspace, executor, stream_));
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  EXPECT_FLOAT_EQ(memory_[12], 127.2F / 127);
  EXPECT_FLOAT_EQ(memory_[13], 0.5F / 127);
  const auto* found = reinterpret_cast<const int8_t*>(memory_) + 64;
  EXPECT_EQ(std::vector<int>(found, found + 8), (std::vector<int>{1, -127, 127, 0, 127, 0, 127, -127}));
  for (aclTensor* each : {x, factors, scale, out}) aclDestroyTensor(each);
}

TEST_F(OpapiTest, AnOutputsSizeCanBeQueriedAfterwards) {
  memory_[1] = 1;
  memory_[4] = 2;
  aclTensor* self = View({2, 3}, {3, 1});
  aclTensor* out = View({6, 2}, {2, 1}, 16, ACL_INT64);  // room for all; the offset is in elements of its own type
  uint64_t workspace = 0;
  aclOpExecutor* executor = nullptr;
  ASSERT_OK(aclnnNonzeroGetWorkspaceSize(self, out, &workspace, &executor));
  ASSERT_OK(aclnnNonzero(nullptr, workspace, executor, stream_));
  ASSERT_OK(aclrtSynchronizeStream(stream_));
  int64_t* dims = nullptr;
  uint64_t count = 0;
  ASSERT_OK(aclGetViewShape(out, &dims, &count));
  EXPECT_EQ(Dims(dims, dims + count), (Dims{2, 2}));
  delete[] dims;
  const auto* found = reinterpret_cast<const int64_t*>(memory_) + 16;
  EXPECT_EQ(Dims(found, found + 4), (Dims{0, 1, 1, 1}));
  aclDestroyTensor(self);
  aclDestroyTensor(out);
}

TEST_F(OpapiTest, ListsItsOperatorsAndCountsTheirCalls) {
  size_t count = 0, add = 0;
  for (; twinOperatorName(count) != nullptr; ++count) {
    if (count > 0) {
      EXPECT_LT(std::strcmp(twinOperatorName(count - 1), twinOperatorName(count)), 0);
    }
    if (std::string(twinOperatorName(count)) == "aclnnAdd") add = count;
  }
  EXPECT_GE(count, 400u);
  ASSERT_STREQ(twinOperatorName(add), "aclnnAdd");
  const uint64_t before = twinOperatorCalls(add);
  EXPECT_OK(Add(View({1}, {1}), View({1}, {1}), View({1}, {1})));
  EXPECT_EQ(twinOperatorCalls(add), before + 1);
  EXPECT_EQ(twinOperatorCalls(count), 0u);
  EXPECT_GE(twinOperatorLargestBytes(add), 4u);
  EXPECT_EQ(twinOperatorLargestBytes(count), 0u);
  ASSERT_OK(aclrtSynchronizeStream(stream_));
}

}  // namespace
}  // namespace twin
