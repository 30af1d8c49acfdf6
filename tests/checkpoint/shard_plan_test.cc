// Which tensors share a weights file: in order, and as many as fit.
#include "checkpoint/shard_plan.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

// The number of tensors in each file, for fp32 vectors of these numbers of elements.
std::vector<size_t> TensorsPerFile(const std::vector<int64_t>& elements, int64_t most_bytes) {
  std::vector<PlannedTensor> tensors;
  for (size_t i = 0; i < elements.size(); ++i)
    tensors.push_back({.name = std::to_string(i), .dtype = DType::kFp32, .shape = {elements[i]}});
  std::vector<size_t> counts;
  for (const PlannedShard& shard : PlanShards(tensors, most_bytes)) counts.push_back(shard.tensors.size());
  return counts;
}

TEST(ShardPlan, AFileIsClosedBeforeItIsTooLarge) {
  EXPECT_EQ(TensorsPerFile({100, 100, 100}, 1000), (std::vector<size_t>{2, 1}));
  EXPECT_EQ(TensorsPerFile({100, 100, 100}, 799), (std::vector<size_t>{1, 1, 1}));
  EXPECT_EQ(TensorsPerFile({100, 100, 100}, 800), (std::vector<size_t>{2, 1}));
  EXPECT_EQ(TensorsPerFile({100, 100, 100}, 1200), (std::vector<size_t>{3}));
}

TEST(ShardPlan, ATensorThatFitsNowhereHasAFileToItself) {
  EXPECT_EQ(TensorsPerFile({10, 1000, 10, 10}, 100), (std::vector<size_t>{1, 1, 2}));
  EXPECT_EQ(TensorsPerFile({1000, 10}, 100), (std::vector<size_t>{1, 1}));
}

TEST(ShardPlan, FilesAreNumberedWhereThereAreSeveral) {
  const PlannedTensor tensor{.name = "a", .dtype = DType::kFp32, .shape = {100}};
  EXPECT_EQ(PlanShards({tensor}, 1000)[0].file, "model.safetensors");
  EXPECT_EQ(PlanShards({tensor, tensor}, 400)[1].file, "model-00002-of-00002.safetensors");
}

}  // namespace
}  // namespace trireme
