// What valid RUN.yaml files and --set options mean.
#include "core/config/load.h"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "core/base/error.h"
#include "core/config/schema.h"

namespace trireme {
namespace {

using google::protobuf::util::MessageDifferencer;

TEST(LoadTest, NothingMeansDefaults) {
  for (const char* text : {"", "\n", "# only a comment\n", "---\n", "{}\n", "run:\nmodel: {}\n"}) {
    EXPECT_TRUE(MessageDifferencer::Equals(ParseConfig(text, "run.yaml"), DefaultConfig())) << text;
  }
}

TEST(LoadTest, ValuesOfEachKind) {
  const Config config = ParseConfig(
      "device: npu\n"
      "model:\n"
      "  path: \"a dir/with: signs\"\n"
      "data: {train: [a.jsonl, 'b c.jsonl', 7], packing: false}\n"
      "parallel: {schedule: 1f1b, tensor: 4}\n"
      "optimizer: {lr: 3e-4, clip: .5}\n"
      "run: {seed: 9223372036854775807}\n",
      "run.yaml");
  EXPECT_EQ(config.device(), DEVICE_NPU);
  EXPECT_EQ(config.model().path(), "a dir/with: signs");
  ASSERT_EQ(config.data().train_size(), 3);
  EXPECT_EQ(config.data().train(1), "b c.jsonl");
  EXPECT_EQ(config.data().train(2), "7");
  EXPECT_FALSE(config.data().packing());
  EXPECT_EQ(config.parallel().schedule(), "1f1b");
  EXPECT_EQ(config.parallel().tensor(), 4);
  EXPECT_EQ(config.optimizer().lr(), 3e-4);
  EXPECT_EQ(config.optimizer().clip(), 0.5);
  EXPECT_EQ(config.run().seed(), 9223372036854775807);
}

TEST(LoadTest, PackingIsOnByDefaultWhereABatchIsNotCountedInSamples) {
  const std::set<std::string> without = {"sft", "dpo", "kto",       "orpo",     "simpo",         "cpo",
                                         "rm",  "bco", "embedding", "reranker", "classification"};
  for (const std::string& stage : SpellingsOf(*Stage_descriptor())) {
    const std::string text = "stage: " + stage + "\n";
    EXPECT_EQ(ParseConfig(text, "x").data().packing(), without.count(stage) == 0) << stage;
    EXPECT_TRUE(ParseConfig(text + "data: {packing: true}\n", "x").data().packing()) << stage;
    EXPECT_FALSE(ParseConfig("data: {packing: false}\n" + text, "x").data().packing()) << stage;
    EXPECT_TRUE(ParseConfig(text, "x", {"data.packing=true"}).data().packing()) << stage;
  }
  EXPECT_TRUE(ParseConfig("stage: dpo\n", "x", {"stage=pt"}).data().packing()) << "--set follows the file";
}

// Of keys with such a default, and of no other.
TEST(LoadTest, AResumedRunKeepsADefaultOfItsOwn) {
  const Config packed = ParseConfig("data: {packing: true}\nrun: {seed: 7}\n", "x");
  const Config kept = ParseConfig("stage: sft\n", "x", {}, &packed);
  EXPECT_TRUE(kept.data().packing());
  EXPECT_EQ(kept.run().seed(), 42);
  EXPECT_FALSE(ParseConfig("data: {packing: false}\n", "x", {}, &packed).data().packing()) << "the file says it";
  EXPECT_FALSE(ParseConfig("", "x", {"data.packing=false"}, &packed).data().packing()) << "--set says it";
}

TEST(LoadTest, AListReplacesItsDefault) {
  EXPECT_EQ(ParseConfig("", "x").tuning().targets(0), "all-linear");
  const Config config = ParseConfig("tuning: {targets: [q_proj, v_proj]}", "x");
  ASSERT_EQ(config.tuning().targets_size(), 2);
  EXPECT_EQ(config.tuning().targets(0), "q_proj");
  EXPECT_EQ(ParseConfig("tuning: {targets: []}", "x").tuning().targets_size(), 0);
}

TEST(LoadTest, AListOfIntegers) {
  const Config config =
      ParseConfig("parallel: {stage_layers: [9, 9]}\n", "run.yaml", {"parallel.stage_layers=[2, 0, 2147483647]"});
  const auto& layers = config.parallel().stage_layers();
  EXPECT_EQ(std::vector<int>(layers.begin(), layers.end()), (std::vector<int>{2, 0, 2147483647}));
}

TEST(LoadTest, EndsOfRangesAreAllowed) {
  const Config config = ParseConfig("parallel: {zero: 3, tensor: 2147483647}\noptimizer: {warmup: 1, beta1: 0}", "x");
  EXPECT_EQ(config.parallel().zero(), 3);
  EXPECT_EQ(config.parallel().tensor(), 2147483647);
  EXPECT_EQ(config.optimizer().warmup(), 1);
  EXPECT_EQ(config.optimizer().beta1(), 0);
}

TEST(LoadTest, SetOverridesTheFileInOrder) {
  const Config config = ParseConfig("parallel: {tensor: 2, zero: 2}\ndata: {train: [a]}\n", "x",
                                    {"parallel.tensor=4", "data.train=[b, c]", "parallel.tensor=8", "device=cpu"});
  EXPECT_EQ(config.parallel().tensor(), 8);
  EXPECT_EQ(config.parallel().zero(), 2);
  ASSERT_EQ(config.data().train_size(), 2);
  EXPECT_EQ(config.data().train(0), "b");
  EXPECT_EQ(config.device(), DEVICE_CPU);
}

TEST(LoadTest, SetTakesASectionAndKeepsItsOtherKeys) {
  const Config config = ParseConfig("run: {seed: 1, steps: 9}\n", "x", {"run={seed: 2}"});
  EXPECT_EQ(config.run().seed(), 2);
  EXPECT_EQ(config.run().steps(), 9);
}

TEST(LoadTest, SetValueMayHoldAnEqualsSign) {
  EXPECT_EQ(ParseConfig("", "x", {"run.output=runs/lr=1"}).run().output(), "runs/lr=1");
  EXPECT_EQ(ParseConfig("", "x", {"run.output=\"\""}).run().output(), "");
}

TEST(LoadTest, ARewardMayBeAKeyWithItsValue) {
  const char* text = "stage: grpo\nrl: {rewards: [{python: \"./mine.py:score\"}, accuracy, {model: DIR}]}\n";
  const Config config = ParseConfig(text, "run.yaml");
  ASSERT_EQ(config.rl().rewards_size(), 3);
  EXPECT_EQ(config.rl().rewards(0), "python:./mine.py:score");
  EXPECT_EQ(config.rl().rewards(1), "accuracy");
  EXPECT_EQ(config.rl().rewards(2), "model:DIR");
  EXPECT_THROW(ParseConfig("stage: grpo\nrl: {rewards: [{lisp: score}]}\n", "run.yaml"), Error);
  EXPECT_THROW(ParseConfig("stage: grpo\nrl: {rewards: [{python: a, model: b}]}\n", "run.yaml"), Error);
  EXPECT_THROW(ParseConfig("data: {train: [{python: a.jsonl}]}\n", "run.yaml"), Error) << "no other list has it";
}

TEST(LoadTest, OneValueIsAListOfOne) {
  const Config config = ParseConfig("data: {train: a.jsonl}\ntuning: {targets: q_proj}\nparallel: {stage_layers: 3}\n",
                                    "x", {"data.valid=b.jsonl"});
  ASSERT_EQ(config.data().train_size(), 1);
  EXPECT_EQ(config.data().train(0), "a.jsonl");
  EXPECT_EQ(config.data().valid(0), "b.jsonl");
  EXPECT_EQ(config.tuning().targets(0), "q_proj");
  EXPECT_EQ(config.parallel().stage_layers(0), 3);
}

TEST(LoadTest, BooleansAsInYaml) {
  for (const char* yes : {"true", "True", "TRUE", "yes", "Yes", "on", "ON"})
    EXPECT_TRUE(ParseConfig(std::string("run: {deterministic: ") + yes + "}", "x").run().deterministic()) << yes;
  for (const char* no : {"false", "False", "no", "NO", "off", "Off"})
    EXPECT_FALSE(ParseConfig(std::string("data: {packing: ") + no + "}", "x").data().packing()) << no;
}

TEST(LoadTest, IntegersWithAnExponent) {
  const Config config = ParseConfig("run: {steps: 1e3, seed: 10e+2}\nsave: {every: 2.5E2}", "x");
  EXPECT_EQ(config.run().steps(), 1000);
  EXPECT_EQ(config.save().every(), 250);
  EXPECT_EQ(config.run().seed(), 1000);
}

TEST(LoadTest, ReadsAFile) {
  const std::string path = testing::TempDir() + "trireme_load_test.yaml";
  std::ofstream(path) << "run: {seed: 7}\n";
  EXPECT_EQ(LoadConfig(path, {"save.keep=1"}).run().seed(), 7);
  std::ofstream(path) << "";
  EXPECT_EQ(LoadConfig(path).run().seed(), 42);
}

}  // namespace
}  // namespace trireme
