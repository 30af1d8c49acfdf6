// The manual contains every key and every comment of config.proto, and no key without a comment.
#include "core/config/help.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <sstream>

#include "core/config/comments.h"
#include "core/config/names.h"
#include "core/config/schema.h"

namespace trireme {
namespace {

std::string InOneLine(const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) line += word + " ";
  return line;
}

void ExpectKeysExplained(const google::protobuf::Descriptor& section, const std::string& prefix,
                         const std::string& help) {
  for (int i = 0; i < section.field_count(); ++i) {
    const FieldDescriptor& field = *section.field(i);
    const std::string key = prefix + field.name();
    EXPECT_NE(help.find(key), std::string::npos) << key;
    EXPECT_NE(CommentOf(field), "") << key;
    EXPECT_NE(help.find(CommentOf(field)), std::string::npos) << key;
    if (IsSection(field)) ExpectKeysExplained(*field.message_type(), key + ".", help);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM) continue;
    for (int v = 0; v < field.enum_type()->value_count(); ++v) {
      const EnumValueDescriptor& value = *field.enum_type()->value(v);
      EXPECT_NE(CommentOf(value), "") << value.full_name();
      EXPECT_NE(help.find(SpellingOf(value) + ": " + CommentOf(value)), std::string::npos) << value.full_name();
    }
  }
}

TEST(ConfigHelpTest, ExplainsEveryKeyAndValue) {
  ExpectKeysExplained(*Config::descriptor(), "", InOneLine(ConfigHelp()));
}

TEST(ConfigHelpTest, ShowsTypeRangeAndDefault) {
  OfferNames("parallel.schedule", {"1f1b", "interleaved", "zero_bubble", "dualpipev"});
  const std::string help = ConfigHelp();
  OfferNames("parallel.schedule", {});
  EXPECT_NE(help.find("  parallel.tensor  (an integer of 1 or more; default 1)\n"
                      "      Tensor-parallel size: ranks that split each layer's matrices.\n"),
            std::string::npos);
  EXPECT_NE(help.find("  tuning.targets  (a list of strings; default [all-linear])\n"), std::string::npos);
  EXPECT_NE(help.find("  parallel.stage_layers  (a list of integers; default [])\n"), std::string::npos);
  EXPECT_NE(help.find("  parallel.schedule  (one of 1f1b, interleaved, zero_bubble, dualpipev; default 1f1b)\n"),
            std::string::npos);
  EXPECT_NE(help.find("  optimizer.eps  (a number of 0 or more; default 1.0e-08)\n"), std::string::npos);
  EXPECT_NE(help.find("  model.path  (a string; default \"\")\n"), std::string::npos);
}

TEST(ConfigHelpTest, LinesAreShort) {
  std::istringstream lines(ConfigHelp());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
}

TEST(ConfigHelpTest, ShowsTheNamesThatAListOffers) {
  EXPECT_EQ(ConfigHelp().find("names:"), std::string::npos);
  OfferNames("ops.off", {"first", "second"});
  EXPECT_NE(ConfigHelp().find("        names: first, second\n"), std::string::npos);
  OfferNames("ops.off", {});
}

TEST(WrappedTest, BreaksBetweenWords) {
  EXPECT_EQ(Wrapped("aa bb cc", "  ", 7), "  aa bb\n  cc\n");
  EXPECT_EQ(Wrapped("a-word-longer-than-the-line b", "", 5), "a-word-longer-than-the-line\nb\n");
  EXPECT_EQ(Wrapped("", "  "), "");
}

TEST(HelpTest, ADefaultThatDependsOnTheStageIsShownWithItsStages) {
  EXPECT_NE(InOneLine(ConfigHelp())
                .find("data.packing (true or false; default true; in stages sft, dpo, kto, orpo, simpo, cpo, rm, "
                      "bco, embedding, reranker and classification false)"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
