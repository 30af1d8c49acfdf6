// Which files a name asks for, and what is said where it asks for others. The rules themselves are compared with those
// of `datasets` in tests/parity/hub_data_test.py.
#include "data/hub/repository_files.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "data/hub/parquet_export.h"
#include "data/hub/split_files.h"

namespace trireme {
namespace {

using Files = std::vector<std::string>;

Repository Holding(Files files, std::vector<CardSubset> card = {}) {
  return {"hub/own/set", std::move(files), std::move(card),
          [](const std::string& file) { return file.ends_with(".jsonl") || file.ends_with(".parquet"); }};
}

Files Asked(const Repository& repository, const std::string& parts) {
  return FilesAskedFor(repository, *ParseHubSetName("own/set" + parts));
}

std::string Refused(const Repository& repository, const std::string& parts) {
  try {
    Asked(repository, parts);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

CardSubset Subset(const std::string& name, const std::string& split, const std::string& pattern) {
  return {.name = name, .splits = {{{split, {pattern}}}}};
}

TEST(RepositoryFiles, AreOfASplit) {
  const Repository set = Holding({"train.jsonl", "test.jsonl", "README.md"});
  EXPECT_EQ(Asked(set, ""), Files{"train.jsonl"});
  EXPECT_EQ(Asked(set, ":test"), Files{"test.jsonl"});
  EXPECT_EQ(Asked(set, ":default/test"), Files{"test.jsonl"});
  EXPECT_EQ(Refused(set, ":valid"),
            "hub/own/set has no split 'valid'; it has train, test: name one after a colon, as in :train");
}

TEST(RepositoryFiles, AreOfSubsets) {
  const Repository set = Holding({"a.jsonl", "b.jsonl", "c.jsonl"},
                                 {Subset("a", "train", "a*"), Subset("b", "train", "b*"), Subset("c", "test", "c*")});
  EXPECT_EQ(Asked(set, ":b/a"), (Files{"b.jsonl", "a.jsonl"}));  // ms-swift's two subsets
  EXPECT_EQ(Asked(set, ":c/test"), Files{"c.jsonl"});
  EXPECT_EQ(Refused(set, ""), "hub/own/set has several subsets and no default one; name one after a colon: a, b, c");
  EXPECT_EQ(
      Refused(set, ":d"),
      "hub/own/set has no subset 'd': it has several subsets and no default one; name one after a colon: a, b, c");
  EXPECT_EQ(Refused(set, ":d/train"), "hub/own/set has no subset 'd'; it has a, b, c");
  EXPECT_NE(Refused(set, ":all").find("has no split 'train' in its subset c; it has test"), std::string::npos);
}

TEST(RepositoryFiles, AllAreThoseOfEverySubset) {
  const Repository set = Holding({"a.jsonl", "b.jsonl"}, {Subset("a", "train", "a*"), Subset("b", "train", "b*")});
  EXPECT_EQ(Asked(set, ":all"), (Files{"a.jsonl", "b.jsonl"}));
}

TEST(RepositoryFiles, OfCardsStayInTheRepository) {
  for (const char* pattern : {"https://other/a.jsonl", "/etc/passwd", "../a.jsonl"}) {
    EXPECT_NE(Refused(Holding({"a.jsonl"}, {Subset("a", "train", pattern)}), "").find("which is elsewhere"),
              std::string::npos)
        << pattern;
  }
  Repository set = Holding({"a.jsonl"}, {Subset("a", "train", "a*")});
  set.card[0].refused = "field";
  EXPECT_NE(Refused(set, "").find("its card sets field for the subset a"), std::string::npos);
}

TEST(RepositoryFiles, AreReadable) {
  EXPECT_NE(Refused(Holding({"a.tar", "b.tar", "c.jsonl"}), "").find("a.tar, which is of a kind that is not read"),
            std::string::npos);
  EXPECT_NE(Refused(Holding({"a.jsonl.xz"}), "").find("a.jsonl.xz, which is of a kind"), std::string::npos);
  EXPECT_EQ(Refused(Holding({"LICENSE"}), ""), "hub/own/set: the split train has no file of a known kind");
  EXPECT_EQ(Refused(Holding({}), ""), "hub/own/set has no files of data");
}

TEST(ParquetExport, IsSubsetsAndSplits) {
  const Files branch = {"en/train/0001.parquet", "en/train/0000.parquet", "en/partial-test/0000.parquet",
                        "de/train/0000.parquet", ".gitattributes",        "en/README.md"};
  const Repository set = Holding(branch, ExportedSubsets(branch));
  EXPECT_EQ(Asked(set, ":en"), (Files{"en/train/0000.parquet", "en/train/0001.parquet"}));
  EXPECT_EQ(Asked(set, ":de/train"), Files{"de/train/0000.parquet"});
  EXPECT_NE(Refused(set, ":en/test").find("has converted only a part of the split test in its subset en"),
            std::string::npos);
  EXPECT_TRUE(ExportedSubsets({"train.parquet", "en/train.parquet", "README.md"}).empty());
  EXPECT_TRUE(NeedsCode({"set.py", "a.csv"}, "set"));
  EXPECT_FALSE(NeedsCode({"scripts/set.py", "other.py"}, "set"));
}

TEST(MissingShardTest, CountsByName) {
  EXPECT_EQ(MissingShard({"a.jsonl", "data/train-00000-of-00001.parquet"}), "");
  EXPECT_EQ(MissingShard({"t-00000-of-00003.parquet", "t-00002-of-00003.parquet"}),
            "2 of the 3 files of t-00000-of-00003.parquet");
  EXPECT_EQ(MissingShard({"-of-00003.parquet", "x-0000a-of-00003.parquet", "00000-of-0000"}), "");
}

}  // namespace
}  // namespace trireme
