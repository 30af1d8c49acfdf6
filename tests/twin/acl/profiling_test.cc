// The profiling functions: accepted in CANN's order, refused out of it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "acl/acl_prof.h"
#include "tests/twin/acl/acl_test.h"

namespace twin {
namespace {

class ProfilingTest : public AclTest {
 protected:
  void SetUp() override {
    AclTest::SetUp();
    config_ = aclprofCreateConfig(nullptr, 0, ACL_AICORE_NONE, nullptr, ACL_PROF_ACL_API);
    ASSERT_NE(config_, nullptr);
  }
  void TearDown() override {
    EXPECT_OK(aclprofDestroyConfig(config_));
    AclTest::TearDown();
  }

  const std::string folder_ = ::testing::TempDir();
  aclprofConfig* config_ = nullptr;
};

TEST_F(ProfilingTest, SucceedsInOrderRepeatedly) {
  for (int round = 0; round < 2; ++round) {
    EXPECT_OK(aclprofInit(folder_.data(), folder_.size()));
    EXPECT_OK(aclprofStart(config_));
    EXPECT_OK(aclprofMarkEx("step", 4, nullptr));
    EXPECT_OK(aclprofStop(config_));
    EXPECT_OK(aclprofFinalize());
  }
}

// Where torch_npu looks for the clocks at the start.
TEST_F(ProfilingTest, LeavesTheFolderOfAProfile) {
  const std::filesystem::path folder = std::filesystem::path(folder_) / "profile";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  ASSERT_OK(aclprofInit(folder.c_str(), folder.string().size()));
  ASSERT_OK(aclprofStart(config_));
  EXPECT_OK(aclprofStop(config_));
  EXPECT_OK(aclprofFinalize());
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    EXPECT_TRUE(std::regex_match(entry.path().filename().string(), std::regex("PROF_\\d+_\\d+_[0-9a-zA-Z]+")));
    std::ifstream info(entry.path() / "host" / "start_info");
    const std::string text(std::istreambuf_iterator<char>(info), {});
    EXPECT_NE(text.find("clockMonotonicRaw"), std::string::npos) << text;
    ++found;
  }
  EXPECT_EQ(found, 1);
}

TEST_F(ProfilingTest, RefusesWhatIsOutOfOrder) {
  EXPECT_REFUSED(aclprofStart(config_), ACL_ERROR_PROF_NOT_RUN, "before aclprofInit");
  EXPECT_REFUSED(aclprofFinalize(), ACL_ERROR_PROF_NOT_RUN, "before aclprofInit");
  ASSERT_OK(aclprofInit(folder_.data(), folder_.size()));
  EXPECT_REFUSED(aclprofInit(folder_.data(), folder_.size()), ACL_ERROR_REPEAT_INITIALIZE, "called twice");
  EXPECT_REFUSED(aclprofStop(config_), ACL_ERROR_PROF_NOT_RUN, "is not running");
  ASSERT_OK(aclprofStart(config_));
  EXPECT_REFUSED(aclprofStart(config_), ACL_ERROR_PROF_ALREADY_RUN, "already running");
  EXPECT_OK(aclprofFinalize());
}

TEST_F(ProfilingTest, RefusesWhatIsMissing) {
  EXPECT_REFUSED(aclprofInit(nullptr, 0), ACL_ERROR_INVALID_PARAM, "profilerResultPath");
  EXPECT_REFUSED(aclprofInit("/no/such/folder", 15), ACL_ERROR_INVALID_FILE, "'/no/such/folder'");
  EXPECT_REFUSED(aclprofStart(nullptr), ACL_ERROR_INVALID_PARAM, "profilerConfig");
  EXPECT_REFUSED(aclprofMarkEx(nullptr, 0, nullptr), ACL_ERROR_INVALID_PARAM, "msg");
  EXPECT_REFUSED(aclprofGetStepTimestamp(nullptr, ACL_STEP_START, nullptr), ACL_ERROR_INVALID_PARAM, "stepInfo");
  aclprofStepInfo* step = aclprofCreateStepInfo();
  EXPECT_OK(aclprofGetStepTimestamp(step, ACL_STEP_START, nullptr));
  aclprofDestroyStepInfo(step);
}

}  // namespace
}  // namespace twin
