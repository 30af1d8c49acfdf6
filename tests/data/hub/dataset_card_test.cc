// Cards of data sets: what they name, and broken ones.
#include "data/hub/dataset_card.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace trireme {
namespace {

std::vector<CardSubset> Read(const std::string& yaml) { return ReadCard("---\n" + yaml + "---\n# text\n", "card"); }

std::string Refusal(const std::string& yaml) {
  try {
    Read(yaml);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(DatasetCard, NamesSubsets) {
  const auto subsets = Read(
      "license: mit\nconfigs:\n- config_name: en\n  data_files:\n  - split: train\n    path: a/*\n  - split: test\n"
      "    path: [b, c]\n  default: true\n- config_name: 2024\n  data_files: d.csv\n- config_name: x\n  data_dir: "
      "x/y\n");
  ASSERT_EQ(subsets.size(), 3U);
  EXPECT_TRUE(subsets[0].is_default);
  ASSERT_EQ(subsets[0].splits->size(), 2U);
  EXPECT_EQ(subsets[0].splits->at(1).split, "test");
  EXPECT_EQ(subsets[0].splits->at(1).patterns, (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(subsets[1].name, "2024");
  EXPECT_EQ(subsets[1].splits->at(0).split, "train");
  EXPECT_EQ(subsets[2].folder, "x/y");
  EXPECT_FALSE(subsets[2].splits);
}

TEST(DatasetCard, MayBeWithoutAny) {
  EXPECT_TRUE(ReadCard("# text\n", "card").empty());
  EXPECT_TRUE(ReadCard("", "card").empty());
  EXPECT_TRUE(ReadCard("---\nconfigs: 1\n", "card").empty());  // no second line of ---
  EXPECT_TRUE(Read("license: mit\n").empty());
  EXPECT_EQ(ReadCard("configs:\n- config_name: a\n", "card", /*whole=*/true).size(), 1U);
}

TEST(DatasetCard, SaysWhichLineIsBroken) {
  EXPECT_EQ(Refusal("license: mit\nconfigs: all\n"), "card:3: configs is 'all'; wanted a list of subsets");
  EXPECT_NE(Refusal("configs:\n- data_files: a\n").find("has no config_name"), std::string::npos);
  EXPECT_NE(Refusal("configs:\n- config_name: a\n  data_files:\n  - split: b\n").find("wanted split and path"),
            std::string::npos);
  EXPECT_NE(Refusal("configs: [\n").find("card:"), std::string::npos);
  const std::string twice = "- {split: a, path: b}\n  - {split: a, path: c}\n";
  EXPECT_NE(Refusal("configs:\n- config_name: a\n  data_files:\n  " + twice).find("the split a is given twice"),
            std::string::npos);
}

TEST(DatasetCard, NotesOptionsOfReaders) {
  EXPECT_EQ(Read("configs:\n- {config_name: a, data_files: b.csv, sep: '|'}\n")[0].refused, "sep");
  EXPECT_EQ(Read("configs:\n- {config_name: a, data_files: b.csv, sep: ','}\n")[0].refused, "");
  EXPECT_EQ(Read("configs:\n- {config_name: a, description: x}\n")[0].refused, "");
}

}  // namespace
}  // namespace trireme
