// Which models a run has beside its own, and how each is opened.
#include "stages/other_models.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace trireme {
namespace {

Config Of(Stage stage, const std::function<void(Config&)>& change = [](Config&) {}) {
  Config config;
  config.set_stage(stage);
  config.mutable_model()->set_path("own");
  config.mutable_tuning()->set_kind(TUNING_FULL);
  config.mutable_rl()->set_beta(0);
  change(config);
  return config;
}

std::vector<std::string> NamesIn(const Config& config) {
  std::vector<std::string> names;
  for (const OtherModel& model : OtherModels(config)) names.push_back(model.name + "=" + model.directory);
  return names;
}

using Names = std::vector<std::string>;

TEST(OtherModels, OfEachStage) {
  EXPECT_EQ(NamesIn(Of(STAGE_PT)), Names());
  EXPECT_EQ(NamesIn(Of(STAGE_SFT)), Names());
  for (const Stage stage : {STAGE_ORPO, STAGE_SIMPO, STAGE_CPO, STAGE_RM}) EXPECT_EQ(NamesIn(Of(stage)), Names());
  for (const Stage stage : {STAGE_DPO, STAGE_KTO, STAGE_BCO}) EXPECT_EQ(NamesIn(Of(stage)), Names{"reference=own"});
  EXPECT_EQ(NamesIn(Of(STAGE_DPO, [](Config& c) { c.set_reference("other"); })), Names{"reference=other"});
  EXPECT_EQ(NamesIn(Of(STAGE_DPO, [](Config& c) { c.mutable_tuning()->set_kind(TUNING_LORA); })), Names());
  EXPECT_EQ(NamesIn(Of(STAGE_GKD, [](Config& c) { c.mutable_distillation()->set_teacher("large"); })),
            Names{"teacher=large"});
  EXPECT_EQ(NamesIn(Of(STAGE_GKD)), Names());  // which is refused elsewhere
}

TEST(OtherModels, OfAPolicy) {
  const auto policy = [](Config& c) {
    c.mutable_rl()->set_beta(0.1);
    c.mutable_rl()->add_rewards("length");
    c.mutable_rl()->add_rewards("model:first");
    c.mutable_rl()->add_rewards("model:second");
    c.mutable_rl()->mutable_sampling()->set_tensor(2);
  };
  EXPECT_EQ(NamesIn(Of(STAGE_PPO, policy)),
            (Names{"sampler=", "value=first", "reference=own", "reward=first", "reward=second"}));
  EXPECT_EQ(NamesIn(Of(STAGE_GRPO, policy)), (Names{"sampler=", "reference=own", "reward=first", "reward=second"}));
  const Config given = Of(STAGE_GRPO, [&](Config& c) {
    policy(c);
    c.mutable_rl()->clear_sampling();
    c.mutable_rl()->set_rollouts("rollouts.jsonl");
    c.mutable_rl()->set_beta(0);  // without a reference
  });
  EXPECT_EQ(NamesIn(given), Names());
  const Config with_values = Of(STAGE_PPO, [](Config& c) { c.mutable_rl()->set_value_model("policy"); });
  EXPECT_EQ(NamesIn(with_values), Names());
  EXPECT_THROW(OtherModels(Of(STAGE_PPO)), Error);  // no value model is named
  EXPECT_FALSE(OtherModelOf(Of(STAGE_PPO), ModelRole::kReward));
  EXPECT_THROW(OtherModels(Of(STAGE_GRPO, [](Config& c) { c.mutable_rl()->add_rewards("model:"); })), Error);
}

TEST(OtherModels, WhatCheckpointsKeepOfThem) {
  const auto saved = [](const Config& config) {
    Names found;
    for (const OtherModel& model : OtherModels(config)) {
      if (!model.saved_as.empty()) found.push_back(model.saved_as + (model.trained ? ", trained" : ""));
    }
    return found;
  };
  EXPECT_EQ(saved(Of(STAGE_DPO)), Names());
  EXPECT_EQ(saved(Of(STAGE_DPO, [](Config& c) { c.mutable_reference_sync()->set_steps(2); })), Names{"reference"});
  EXPECT_EQ(saved(Of(STAGE_PPO, [](Config& c) { c.mutable_rl()->set_value_model("critic"); })),
            Names{"value_model, trained"});
}

// Everything that speaks of the run's own model alone is left out of another's configuration.
TEST(OtherModels, AreOpenedAsTheyAre) {
  const Config run = Of(STAGE_GRPO, [](Config& c) {
    c.mutable_model()->set_quantise(QUANTISE_NF4);
    c.mutable_model()->set_init(MODEL_INIT_RANDOM);
    c.mutable_tuning()->set_kind(TUNING_LORA);
    c.mutable_multi_token_prediction()->set_depths(1);
    c.mutable_parallel()->set_tensor(2);
    c.mutable_parallel()->set_context(2);
    c.mutable_parallel()->set_zero(1);
  });
  const Config other = ConfigOf(run, {.directory = "other"});
  EXPECT_EQ(other.model().path(), "other");
  EXPECT_EQ(other.model().quantise(), QUANTISE_NONE);
  EXPECT_EQ(other.model().init(), MODEL_INIT_WEIGHTS);
  EXPECT_EQ(other.tuning().kind(), TUNING_FULL);
  EXPECT_EQ(other.multi_token_prediction().depths(), 0);
  EXPECT_EQ(other.parallel().SerializeAsString(), run.parallel().SerializeAsString());
  EXPECT_EQ(ConfigOf(run, {.directory = "own"}).model().quantise(), QUANTISE_NF4);
  EXPECT_EQ(ConfigOf(run, {.directory = "own", .trained = true}).model().quantise(), QUANTISE_NONE);
  EXPECT_EQ(ConfigOf(run, {.directory = "other", .shard = true}).parallel().zero(), 3);
  ParallelConfig layout;
  layout.set_pipeline(4);
  Config expected = run;
  *expected.mutable_parallel() = layout;
  EXPECT_EQ(ConfigOf(run, {.layout = layout}).SerializeAsString(), expected.SerializeAsString());
}

TEST(OtherModels, ShareOneSettingOfMemory) {
  const Config run = Of(STAGE_GRPO, [](Config& c) {
    c.mutable_rl()->set_beta(0.1);
    c.mutable_rl()->add_rewards("model:judge");
    c.mutable_memory()->set_shard_reference(true);
    c.mutable_memory()->set_offload_reference(true);
  });
  const OtherModel reference = OtherModelOf(run, ModelRole::kReference).value();
  const OtherModel reward = OtherModelOf(run, ModelRole::kReward).value();
  EXPECT_TRUE(reference.shard && reference.offload && reward.shard);
  EXPECT_FALSE(reward.offload);
  EXPECT_EQ(reward.head, HeadKind::kScore);
  EXPECT_EQ(reference.head, HeadKind::kLogits);
}

}  // namespace
}  // namespace trireme
