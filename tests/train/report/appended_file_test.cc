// A log that is removed while it is being written is noticed, however it was removed.
#include "train/report/appended_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/base/file.h"
#include "tests/checkpoint/scratch.h"
#include "train/report/log_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

TEST(AppendedFile, AppendsToAnExistingFile) {
  const Scratch scratch;
  std::ofstream(scratch.path() / "a") << "one\n";
  AppendedFile file(scratch.path() / "a");
  file.Append("two\n");
  EXPECT_EQ(ReadTextFile((scratch.path() / "a").string()), "one\ntwo\n");
}

TEST(AppendedFile, NoticesThatItsFileIsGone) {
  const Scratch scratch;
  const fs::path output = scratch.path() / "run", log = output / "log.jsonl";
  const std::string gone = log.string() + " was removed, moved or replaced during the run";
  const auto taken = [&](const auto& take) {
    fs::create_directories(output);
    LogFile file(output, /*go_on=*/true);
    file.Write({.step = 1});
    file.Finish();
    take();
    const std::string said = ErrorOf([&] { file.Write({.step = 2}); });
    EXPECT_EQ(said.find(gone), 0u) << said;
    EXPECT_EQ(ErrorOf([&] { file.Finish(); }), said);
    fs::remove_all(output);
  };
  taken([&] { fs::remove(log); });
  taken([&] { fs::remove_all(output); });
  taken([&] { fs::rename(output, scratch.path() / "moved"); });
  taken([&] {
    fs::remove(log);
    std::ofstream(log) << "somebody else's\n";
  });
}

}  // namespace
}  // namespace trireme
