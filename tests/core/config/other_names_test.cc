// docs/from_other_systems.md against the program: every key that the page names is in the schema, and writing
// another system's name into RUN.yaml suggests the key that the page lists.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/config/load.h"
#include "core/config/other_names.h"
#include "core/config/schema.h"

namespace trireme {
namespace {

// The text between backticks.
std::vector<std::string> Quoted(const std::string& text) {
  std::vector<std::string> words;
  size_t begin = text.find('`');
  while (begin != std::string::npos) {
    const size_t end = text.find('`', begin + 1);
    words.push_back(text.substr(begin + 1, end - begin - 1));
    begin = text.find('`', end + 1);
  }
  return words;
}

struct Line {
  std::vector<std::string> theirs;
  std::string ours;
};

// The rows of the three-column tables.
std::vector<Line> TableLines() {
  std::ifstream file(TRIREME_DOCS "/from_other_systems.md");
  std::vector<Line> lines;
  for (std::string text; std::getline(file, text);) {
    if (!text.starts_with("| `") || std::count(text.begin(), text.end(), '|') != 4) continue;
    std::istringstream cells(text.substr(1));
    std::string theirs, ours;
    std::getline(cells, theirs, '|');
    std::getline(cells, ours, '|');
    const std::vector<std::string> key = Quoted(ours);
    lines.push_back({Quoted(theirs), key.empty() ? "" : key.front()});
  }
  return lines;
}

TEST(OtherNames, ThePageNamesExistingKeys) {
  const std::vector<std::string> keys = KeysUnder(*Config::descriptor());
  const std::vector<Line> lines = TableLines();
  EXPECT_GT(lines.size(), 60u);
  for (const Line& line : lines) {
    EXPECT_TRUE(line.ours.empty() || std::ranges::count(keys, line.ours) == 1) << line.ours;
  }
}

TEST(OtherNames, TheProgramAnswersAsThePageDoes) {
  for (const Line& line : TableLines()) {
    for (const std::string& name : line.theirs) {
      // Asked for in the key's own section, where a name has several keys.
      const bool several = name == "loss_type";
      const std::string hint =
          UnknownKeyHint(several ? line.ours.substr(0, line.ours.find('.') + 1) + name : name) + ":";
      // A name that a key has too, in whatever section, is answered with that key, and with others of that name after
      // it.
      const std::string wanted = line.ours.empty()                 ? "leave it out:"
                                 : line.ours.ends_with("." + name) ? "did you mean " + line.ours
                                                                   : "in Trireme it is " + line.ours + ":";
      EXPECT_EQ(hint.substr(0, wanted.size()), wanted) << name;
    }
  }
}

TEST(OtherNames, AFileOfTheirsIsOfferedTheTranslation) {
  const auto problems = [](const std::string& text) -> std::string {
    try {
      ParseConfig(text, "theirs.yaml");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(problems("learning_rate: 1\nnum_train_epochs: 3\n").find("trireme translate theirs.yaml writes a run.yaml"),
            std::string::npos);
  EXPECT_EQ(problems("learning_rate: 1\n").find("trireme translate"), std::string::npos);
}

TEST(OtherNames, WhatIsMissingIsSaid) {
  EXPECT_TRUE(UnknownKeyHint("use_galore").starts_with("Trireme does not have it: "));
  EXPECT_TRUE(UnknownKeyHint("moe_grouped_gemm").starts_with("leave it out: "));
  EXPECT_EQ(SameNames("max-length"), std::vector<std::string>{"data.max_length"});
  EXPECT_TRUE(SameNames("output").empty());
}

TEST(OtherNames, OfSeveralKeysTheSectionsOwnOrAll) {
  EXPECT_EQ(UnknownKeyHint("rl.loss_type"),
            "in Trireme it is rl.loss: in stages grpo, rloo, reinforce_plus_plus and ppo");
  EXPECT_EQ(UnknownKeyHint("loss_type"),
            "in Trireme it is preference.loss: a list, with preference.weights; or rl.loss: in stages grpo, rloo, "
            "reinforce_plus_plus and ppo");
  EXPECT_EQ(UnknownKeyHint("beta"), "did you mean preference.beta or rl.beta or distillation.beta?");
}

}  // namespace
}  // namespace trireme
