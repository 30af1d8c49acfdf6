// Segments of killed jobs are removed; those that a process has open or mapped stay, and so does everything
// else.
#include "core/comm/stale_segments.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace trireme {
namespace {

namespace fs = std::filesystem;

class StaleSegments : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = "/dev/shm/trireme-test-" + std::to_string(getpid());
    fs::create_directory(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string Make(const std::string& name) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << std::string(8192, 'x');
    return path;
  }

  std::string folder_;
};

TEST_F(StaleSegments, OfAKilledJobAreRemoved) {
  const std::string four = Make("vader_segment.host.0.25020001.0");
  const std::string five = Make("sm_segment.host.0.25020001.1");
  EXPECT_EQ(RemoveStaleSegments(folder_), 2);
  EXPECT_FALSE(fs::exists(four) || fs::exists(five));
  EXPECT_EQ(RemoveStaleSegments(folder_), 0);
}

TEST_F(StaleSegments, OfALiveJobStay) {
  const std::string open_one = Make("vader_segment.host.0.1.0");
  const std::string mapped_one = Make("vader_segment.host.0.1.1");
  int ready[2], go[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(go), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    char byte = 0;
    const int open_file = open(open_one.c_str(), O_RDWR);
    const int mapped_file = open(mapped_one.c_str(), O_RDWR);
    void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, mapped_file, 0);
    close(mapped_file);  // as Open MPI does: only the mapping keeps it alive
    const bool well = open_file >= 0 && memory != MAP_FAILED && write(ready[1], "", 1) == 1;
    _exit(well && read(go[0], &byte, 1) == 1 ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(RemoveStaleSegments(folder_), 0);
  EXPECT_TRUE(fs::exists(open_one) && fs::exists(mapped_one));
  EXPECT_EQ(write(go[1], "", 1), 1);
  int status = 0;
  waitpid(owner, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(RemoveStaleSegments(folder_), 2) << "its owner has ended";
  for (int end : {ready[0], ready[1], go[0], go[1]}) close(end);
}

TEST_F(StaleSegments, NothingElseIsTouched) {
  const std::string other = Make("a_users_file");
  const std::string target = Make("target");
  fs::create_symlink(target, folder_ + "/vader_segment.link");
  fs::create_directory(folder_ + "/vader_segment.folder");
  EXPECT_EQ(RemoveStaleSegments(folder_), 0);
  EXPECT_TRUE(fs::exists(other) && fs::exists(target));
  EXPECT_EQ(RemoveStaleSegments(folder_ + "/no such folder"), 0);
}

}  // namespace
}  // namespace trireme
