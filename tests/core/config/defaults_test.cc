// The defaults, against the documented example: every key of it loads, and apart from the placeholders (DIR,
// a.jsonl) every value in it equals the default.
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/config/load.h"
#include "core/config/print.h"
#include "core/config/schema.h"

namespace trireme {
namespace {

using google::protobuf::util::MessageDifferencer;

const char kExample[] = R"(
device: auto                 # auto | cpu | npu | cuda; auto takes an npu only where a real device is
stage: sft                   # pt | sft | …
model:  {path: DIR, init: weights, dtype: bf16}          # an HF directory; init: random uses only its config.json
tuning: {kind: lora, rank: 8, alpha: 32, dropout: 0.05, targets: [all-linear]}     # full | freeze | lora
data:   {train: [a.jsonl], valid: [], max_length: 2048, packing: false}
parallel: {tensor: 1, pipeline: 1, context: 1, expert: 1, expert_tensor: 1, sequence: true, zero: 1,
           schedule: 1f1b, virtual_stages: 1, context_method: ring}
           # schedule: 1f1b | interleaved | zero_bubble | dualpipev;  context_method: ring | ulysses | hybrid
memory: {recompute: none, offload_optimizer: false}      # recompute: none | selective | full
optimizer: {lr: 1.0e-4, min_lr: 0, schedule: cosine, warmup: 0.0, weight_decay: 0.1, beta1: 0.9, beta2: 0.95, eps: 1.0e-8, clip: 1.0}
run: {output: DIR, epochs: 1, steps: 0, global_batch: 16, micro_batch: 1, seed: 42, resume: auto}
eval: {every: 0}
save: {every: 500, keep: 3}
log: {every: 1}
)";

// The keys of run as they were before eval, save and log had them.
const char kFormerRun[] = R"(
run: {output: DIR, epochs: 1, steps: 0, global_batch: 16, micro_batch: 1, log_every: 1, save_every: 500, eval_every: 0, keep: 3, seed: 42, resume: auto}
)";

TEST(DefaultsTest, AreThoseOfTheExample) {
  Config example = ParseConfig(kExample, "example.yaml");
  EXPECT_EQ(example.model().path(), "DIR");
  EXPECT_EQ(example.run().output(), "DIR");
  ASSERT_EQ(example.data().train_size(), 1);
  example.mutable_model()->set_path("");
  example.mutable_run()->set_output("");
  example.mutable_data()->clear_train();
  MessageDifferencer differencer;
  std::string differences;
  differencer.ReportDifferencesToString(&differences);
  EXPECT_TRUE(differencer.Compare(example, DefaultConfig())) << differences;
}

TEST(DefaultsTest, AreThoseOfAnExampleOfFormerNames) {
  const std::string example = kExample;
  Config former = ParseConfig(example.substr(0, example.find("run: {")) + kFormerRun, "former.yaml");
  EXPECT_TRUE(MessageDifferencer::Equals(former, ParseConfig(kExample, "example.yaml")));
}

TEST(DefaultsTest, OfKeysBeyondTheExample) {
  const Config config = DefaultConfig();
  EXPECT_EQ(config.comm().buffer_mb(), 200);
  EXPECT_EQ(config.comm().connect_timeout_seconds(), 120);
  EXPECT_EQ(config.comm().exec_timeout_seconds(), 1836);
  EXPECT_EQ(config.comm().hang_report_seconds(), 60);
  EXPECT_FALSE(config.run().deterministic());
  EXPECT_EQ(config.log().trace(), 0);
  EXPECT_EQ(config.run().on_nonfinite(), ON_NONFINITE_STOP);
  EXPECT_TRUE(config.data().shuffle());
  EXPECT_EQ(config.parallel().stage_layers_size(), 0);
}

// The parser checks every value it reads, and here it reads all of them.
TEST(DefaultsTest, EveryDefaultIsInItsRange) {
  EXPECT_TRUE(MessageDifferencer::Equals(ParseConfig(ToYaml(DefaultConfig()), "defaults.yaml"), DefaultConfig()));
}

// A value without a spelling could not be written; two with the same could not be distinguished.
TEST(DefaultsTest, EveryEnumValueHasItsOwnSpelling) {
  const google::protobuf::FileDescriptor& file = *Config::descriptor()->file();
  ASSERT_GT(file.enum_type_count(), 0);
  for (int i = 0; i < file.enum_type_count(); ++i) {
    std::vector<std::string> spellings = SpellingsOf(*file.enum_type(i));
    EXPECT_EQ(std::count(spellings.begin(), spellings.end(), ""), 0) << file.enum_type(i)->name();
    std::sort(spellings.begin(), spellings.end());
    EXPECT_EQ(std::adjacent_find(spellings.begin(), spellings.end()), spellings.end()) << file.enum_type(i)->name();
  }
}

}  // namespace
}  // namespace trireme
