// Keys that once had another name: read by it in files and from --set, never written by it, and refused beside the
// present one.
#include "core/config/former_names.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/config/help.h"
#include "core/config/load.h"
#include "core/config/print.h"
#include "core/config/schema.h"
#include "tests/core/config/other_value.h"

namespace trireme {
namespace {

using google::protobuf::util::MessageDifferencer;

std::string ErrorOf(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    ParseConfig(text, "run.yaml", overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

// "run: {save_every: 7}" of run.save_every.
std::string InAFile(const std::string& key, const std::string& value) {
  const size_t dot = key.find('.');
  return Concat(key.substr(0, dot), ": {", key.substr(dot + 1), ": ", value, "}\n");
}

TEST(FormerNamesTest, AreThoseOfRunsBeforeItsSections) {
  EXPECT_EQ(KeyFormerlyCalled("run.save_every"), "save.every");
  EXPECT_EQ(KeyFormerlyCalled("run.report_name"), "log.name");
  EXPECT_EQ(KeyFormerlyCalled("save.every"), std::nullopt);
  EXPECT_EQ(PresentName("run.eval_every"), "eval.every");
  EXPECT_EQ(PresentName("run.seed"), "run.seed");
  EXPECT_EQ(FormerNames().size(), 13u);
}

TEST(FormerNamesTest, NoKeyHasOne) {
  for (const std::string& former : FormerNames()) EXPECT_EQ(FindField(former), nullptr) << former;
}

TEST(FormerNamesTest, MeanTheKeyInFilesAndInSet) {
  for (const std::string& former : FormerNames()) {
    const std::string key = PresentName(former), value = OtherValue(key);
    const Config wanted = ParseConfig("", "x", {Concat(key, "=", value)});
    EXPECT_FALSE(MessageDifferencer::Equals(wanted, DefaultConfig())) << key;
    EXPECT_TRUE(MessageDifferencer::Equals(ParseConfig(InAFile(former, value), "x"), wanted)) << former;
    EXPECT_TRUE(MessageDifferencer::Equals(ParseConfig("", "x", {Concat(former, "=", value)}), wanted)) << former;
  }
  EXPECT_EQ(ParseConfig("run: {seed: 1}", "x", {"run={save_every: 7, seed: 2}"}).save().every(), 7);
}

TEST(FormerNamesTest, SetOverridesTheFileWhicheverNamesTheyUse) {
  EXPECT_EQ(ParseConfig("run: {save_every: 7}", "x", {"save.every=9"}).save().every(), 9);
  EXPECT_EQ(ParseConfig("save: {every: 7}", "x", {"run.save_every=9"}).save().every(), 9);
  EXPECT_EQ(ParseConfig("", "x", {"run.save_every=9", "run.save_every=3"}).save().every(), 3);
}

TEST(FormerNamesTest, AreNotWritten) {
  const std::string yaml = ToYaml(ParseConfig("run: {log_every: 7, report_to: [wandb]}", "x"));
  EXPECT_NE(yaml.find("log:\n  every: 7\n  report_to: [wandb]\n"), std::string::npos) << yaml;
  EXPECT_EQ(yaml.find("log_every"), std::string::npos);
}

TEST(FormerNamesTest, BesideThePresentNameAreRefused) {
  EXPECT_EQ(ErrorOf("run:\n  save_every: 7\nsave: {every: 7}\n"),
            "run.yaml:3: save.every: run.save_every is the former name of save.every, and both are given, the other in "
            "line 2; keep save.every");
  EXPECT_EQ(
      ErrorOf("save: {every: 7}\nrun: {save_every: 8}\n"),
      "run.yaml:2: run.save_every: run.save_every is the former name of save.every, and both are given, the other "
      "in line 1; keep save.every");
  EXPECT_EQ(ErrorOf("", {"run.keep=1", "save={keep: 2}"}),
            "--set save={keep: 2}: save.keep: run.keep is the former name of save.keep, and both are given; keep "
            "save.keep");
  for (const std::string& former : FormerNames()) {
    const std::string key = PresentName(former), value = OtherValue(key);
    const std::string said = ErrorOf("", {Concat(key, "=", value), Concat(former, "=", value)});
    EXPECT_NE(said.find(Concat(former, " is the former name of ", key)), std::string::npos) << said;
  }
}

TEST(FormerNamesTest, AreNamedAsGivenInErrorsAndLeadToThePresentOnes) {
  EXPECT_EQ(ErrorOf("run: {save_every: soon}\n"),
            "run.yaml:1: run.save_every: wanted an integer of 0 or more, found 'soon'");
  EXPECT_EQ(ErrorOf("run: {save_evry: 7}\n"), "run.yaml:1: run.save_evry: unknown key; did you mean save.every?");
  EXPECT_EQ(ErrorOf("save_every: 7\n"), "run.yaml:1: save_every: unknown key; did you mean save.every?");
  EXPECT_EQ(ErrorOf("", {"optimizer.log_every=7"}),
            "--set optimizer.log_every=7: unknown key; did you mean log.every?");
}

TEST(FormerNamesTest, AreInTheManualBesideTheKey) {
  const std::string help = ConfigHelp();
  EXPECT_NE(help.find("  save.every  (an integer of 0 or more; default 500)\n"
                      "      Steps between checkpoints; 0: only at the end. Formerly run.save_every.\n"),
            std::string::npos);
  EXPECT_EQ(help.find("  run.save_every  ("), std::string::npos);
}

}  // namespace
}  // namespace trireme
