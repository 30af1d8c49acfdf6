#include "checkpoint/stale_parts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "tests/checkpoint/scratch.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

TEST(StaleParts, OnlyTemporaryFilesAreRemoved) {
  const Scratch scratch;
  const fs::path& output = scratch.path();
  for (const char* folder : {"checkpoint-12.part", "final.part", "checkpoint-12", "checkpoint-12.damaged", "my.part",
                             "checkpoint-x.part", "checkpoint-.part"}) {
    fs::create_directory(output / folder);
    std::ofstream(output / folder / "rank-0.h5") << "bytes";
  }
  for (const char* file : {"run.yaml.part-4711", "log.jsonl", "notes.part", "notes.part-two", ".part-1"}) {
    std::ofstream(output / file) << "text";
  }
  fs::create_directory_symlink(output / "checkpoint-12", output / "checkpoint-13.part");
  std::set<std::string> removed;
  for (const fs::path& each : RemoveStaleParts(output)) removed.insert(each.filename().string());
  EXPECT_EQ(removed, (std::set<std::string>{"checkpoint-12.part", "final.part", "run.yaml.part-4711"}));
  for (const std::string& each : removed) EXPECT_FALSE(fs::exists(output / each)) << each;
  for (const char* kept :
       {"checkpoint-12/rank-0.h5", "checkpoint-12.damaged", "my.part", "checkpoint-x.part", "checkpoint-.part",
        "log.jsonl", "notes.part", "notes.part-two", ".part-1", "checkpoint-13.part/rank-0.h5"}) {
    EXPECT_TRUE(fs::exists(output / kept)) << kept;
  }
}

TEST(StaleParts, AMissingOutputIsNotAnError) { EXPECT_TRUE(RemoveStaleParts("/no/such/output").empty()); }

}  // namespace
}  // namespace trireme
