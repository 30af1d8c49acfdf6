// What the cache of the reference's log-probabilities is named after, and what becomes of a damaged file.
#include "train/methods/preference/reference_cache.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/data/scratch.h"

namespace trireme {
namespace {

class ReferenceCacheTest : public ScratchTest {
 protected:
  Config ConfigFor(const std::string& weights) {
    std::filesystem::create_directories(folder_ / "model");
    std::ofstream(folder_ / "model" / "model.safetensors") << weights;
    std::filesystem::create_directories(folder_ / "cache");
    Config config;
    config.set_stage(STAGE_DPO);
    config.mutable_model()->set_path((folder_ / "model").string());
    config.mutable_data()->set_cache((folder_ / "cache").string());
    return config;
  }
  static RowList Rows(int64_t token) {
    Row row{{1, token}, {-100, token}};
    row.answer_tokens = {1, 1};
    return RowList({row, row});
  }
};

TEST_F(ReferenceCacheTest, IsNamedAfterDataAndWeights) {
  const Config config = ConfigFor("weights");
  const auto path = ReferenceCache(config, Rows(2)).path();
  EXPECT_EQ(path, ReferenceCache(config, Rows(2)).path());
  EXPECT_NE(path, ReferenceCache(config, Rows(3)).path());
  EXPECT_NE(path, ReferenceCache(ConfigFor("others"), Rows(2)).path());
  Config other = ConfigFor("weights");
  EXPECT_EQ(path, ReferenceCache(other, Rows(2)).path());
  other.mutable_model()->set_dtype(DTYPE_FP32);
  EXPECT_NE(path, ReferenceCache(other, Rows(2)).path());
}

TEST_F(ReferenceCacheTest, IsNamedAfterWhatElseTheWeightsComeFrom) {
  const auto path = ReferenceCache(ConfigFor("weights"), Rows(2)).path();
  Config random = ConfigFor("weights");
  random.mutable_model()->set_init(MODEL_INIT_RANDOM);
  EXPECT_NE(path, ReferenceCache(random, Rows(2)).path()) << "what is drawn depends on the seed";
  Config start = ConfigFor("weights");
  start.set_reference("start");
  std::filesystem::create_directories(folder_ / "adapters");
  start.mutable_tuning()->set_adapters((folder_ / "adapters").string());
  std::vector<std::filesystem::path> found;
  for (const char* adapter : {"one", "another"}) {
    std::ofstream(folder_ / "adapters" / "adapter_model.safetensors") << adapter;
    found.push_back(ReferenceCache(start, Rows(2)).path());
  }
  EXPECT_NE(found[0], found[1]) << "a reference that is the start has the adapters of the start";
}

TEST_F(ReferenceCacheTest, GivesWhatWasWrittenAndNothingElse) {
  const ReferenceCache cache(ConfigFor("weights"), Rows(2));
  EXPECT_FALSE(cache.Read(3).has_value());
  cache.Write({-1.5F, -2.25F, 0.0F});
  EXPECT_EQ(cache.Read(3), (std::vector<float>{-1.5F, -2.25F, 0.0F}));
  EXPECT_FALSE(cache.Read(4).has_value()) << "another number of answers";
  EXPECT_FALSE(std::filesystem::exists(cache.path())) << "what is wrong is removed";
}

TEST_F(ReferenceCacheTest, AFlippedBitIsFound) {
  const ReferenceCache cache(ConfigFor("weights"), Rows(2));
  cache.Write({-1.5F, -2.25F, 0.0F});
  std::fstream file(cache.path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(18).put('!');
  file.close();
  EXPECT_FALSE(cache.Read(3).has_value());
  cache.Write({1.0F, 2.0F, 3.0F});
  EXPECT_EQ(cache.Read(3), (std::vector<float>{1.0F, 2.0F, 3.0F}));
}

TEST_F(ReferenceCacheTest, AnswersAreFoundByTheirRows) {
  const AnswerIndex index(Rows(2));
  EXPECT_EQ(index.answers(), 4);
  EXPECT_EQ(index.Of({1, 0}), (std::vector<int64_t>{2, 3, 0, 1}));
}

}  // namespace
}  // namespace trireme
