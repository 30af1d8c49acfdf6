// The table of stages is whole, and agrees with the schema; keys reach the options of objectives.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/config/schema.h"
#include "stages/objective_options.h"
#include "stages/stage.h"

namespace trireme {
namespace {

TEST(Stages, EachHasOneLineByItsNumberAndName) {
  const auto* schema = Stage_descriptor();
  ASSERT_EQ(static_cast<int>(AllStages().size()), schema->value_count());
  for (int i = 0; i < schema->value_count(); ++i) {
    const StageFacts& facts = AllStages()[static_cast<size_t>(i)];
    EXPECT_EQ(facts.stage, schema->value(i)->number());
    EXPECT_EQ(facts.name, SpellingOf(*schema->value(i)));
    EXPECT_EQ(&FactsOf(facts.stage), &facts);
  }
}

TEST(Stages, FactsAgreeWithEachOther) {
  for (const StageFacts& facts : AllStages()) {
    EXPECT_EQ(facts.of_answers(), facts.method == MethodKind::kPreference) << facts.name;
    EXPECT_EQ(facts.baseline != Baseline::kNone, facts.method == MethodKind::kPolicy) << facts.name;
    EXPECT_EQ(facts.records == Records::kPrompts, facts.method == MethodKind::kPolicy) << facts.name;
    EXPECT_TRUE(facts.reference || !facts.on_completions()) << facts.name;
  }
}

TEST(Stages, ObjectiveAndDropoutFollowTheRun) {
  Config config;
  config.set_stage(STAGE_PPO);
  EXPECT_EQ(ObjectiveOf(config), "ppo_policy");
  EXPECT_FALSE(DrawsDropout(config));
  config.mutable_rl()->set_value_model("policy");
  EXPECT_EQ(ObjectiveOf(config), "ppo");
  config.set_stage(STAGE_DPO);
  EXPECT_EQ(ObjectiveOf(config), "dpo");
  config.mutable_preference()->set_disable_dropout(false);
  EXPECT_TRUE(DrawsDropout(config));
  config.mutable_preference()->set_disable_dropout(true);
  EXPECT_FALSE(DrawsDropout(config));
  config.set_stage(STAGE_SFT);
  EXPECT_TRUE(DrawsDropout(config));
}

TEST(ObjectiveOptions, DefaultsAreThoseOfTheKeys) { EXPECT_EQ(ObjectiveOptionsOf(Config()), ObjectiveOptions()); }

TEST(ObjectiveOptions, EachKeySetsItsOption) {
  Config config;
  config.mutable_loss()->set_label_smoothing(0.25);
  config.mutable_loss()->set_z_coefficient(0.5);
  PreferenceConfig& preference = *config.mutable_preference();
  preference.add_loss("ipo");
  preference.add_weights(2);
  preference.set_beta(3);
  preference.set_label_smoothing(0.125);
  preference.set_divergence(DIVERGENCE_JS);
  preference.set_divergence_alpha(4);
  preference.set_discopop_tau(5);
  preference.set_simpo_gamma(6);
  preference.set_sft_weight(7);
  preference.set_cpo_alpha(8);
  preference.set_desirable_weight(9);
  preference.set_undesirable_weight(10);
  preference.set_center_rewards(11);
  RlConfig& rl = *config.mutable_rl();
  rl.set_loss("sapo");
  rl.set_level(LEVEL_SEQUENCE);
  rl.set_beta(12);
  rl.set_epsilon(13);
  rl.set_epsilon_high(14);
  rl.set_delta(15);
  rl.set_temperature(16);
  rl.set_max_new_tokens(17);
  rl.set_entropy_coef(18);
  rl.set_top_entropy_quantile(19);
  rl.set_bias_correction_kl(false);
  rl.set_sapo_temperature_pos(20);
  rl.set_sapo_temperature_neg(21);
  rl.set_sampler_correction(CORRECTION_SEQUENCE_MASK);
  rl.set_sampler_clip_min(22);
  rl.set_sampler_clip_max(23);
  rl.set_cliprange_value(24);
  rl.set_vf_coef(25);
  config.mutable_distillation()->set_beta(26);
  config.mutable_distillation()->set_temperature(27);
  const ObjectiveOptions wanted{.tokens = {.label_smoothing = 0.25, .z_coefficient = 0.5},
                                .answers = {.losses = {"ipo"},
                                            .weights = {2},
                                            .pair = {.beta = 3,
                                                     .label_smoothing = 0.125,
                                                     .divergence = PairDivergence::kJs,
                                                     .divergence_alpha = 4,
                                                     .discopop_tau = 5,
                                                     .simpo_gamma = 6},
                                            .sft_weight = 7,
                                            .cpo_alpha = 8,
                                            .desirable_weight = 9,
                                            .undesirable_weight = 10,
                                            .center_rewards = 11},
                                .policy = {.loss = "sapo",
                                           .sequence_level = true,
                                           .beta = 12,
                                           .epsilon = 13,
                                           .epsilon_high = 14,
                                           .delta = 15,
                                           .temperature = 16,
                                           .max_new_tokens = 17,
                                           .entropy_coef = 18,
                                           .top_entropy_quantile = 19,
                                           .bias_correction_kl = false,
                                           .sapo_temperature_pos = 20,
                                           .sapo_temperature_neg = 21,
                                           .sampler_correction = SamplerRatio::kSequenceMask,
                                           .sampler_clip_min = 22,
                                           .sampler_clip_max = 23},
                                .value = {.clip_range = 24, .weight = 25},
                                .distillation = {.beta = 26, .temperature = 27}};
  EXPECT_EQ(ObjectiveOptionsOf(config), wanted);
}

}  // namespace
}  // namespace trireme
