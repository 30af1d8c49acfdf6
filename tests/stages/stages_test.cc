// The table of stages is whole, and agrees with the schema; keys reach the options of objectives.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/base/error.h"
#include "core/config/load.h"
#include "core/config/schema.h"
#include "stages/objective_options.h"
#include "stages/retrieval_check.h"
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
    EXPECT_FALSE(TrainsTexts(facts) && (facts.reference || facts.head == HeadKind::kLogits)) << facts.name;
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
  config.mutable_retrieval()->set_generative(true);
  EXPECT_EQ(HeadOf(config), HeadKind::kLogits);
  EXPECT_EQ(ObjectiveOf(config), "cross_entropy");
  config.set_stage(STAGE_RERANKER);
  EXPECT_EQ(ObjectiveOf(config), "generative_reranker");
  EXPECT_EQ(HeadOf(config), HeadKind::kLogits);
  config.clear_retrieval();
  EXPECT_EQ(HeadOf(config), HeadKind::kScore);
}

std::string RetrievalRefusal(const std::vector<std::string>& settings) {
  try {
    CheckStage(ParseConfig("", "x", settings));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Stages, OfTextsRefuseWhatDoesNotFitTogether) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"stage=embedding", "eval.metric=ndcg@10"}, ""},
      {{"stage=embedding", "eval.metric=accuracy"},
       "eval.metric = accuracy: evaluations of this run log ndcg@10, mrr@10, recall@1, recall@10; write one of them, "
       "or "
       "leave it out for the loss"},
      {{"stage=embedding", "retrieval.loss=cosent", "eval.metric=pearson"}, ""},
      {{"stage=embedding", "retrieval.matryoshka=[8,4]", "retrieval.matryoshka_weights=[1]"},
       "retrieval.matryoshka_weights has 1 numbers for 2 sizes in retrieval.matryoshka; wanted one each, or none"},
      {{"stage=embedding", "data.packing=true"},
       "data.packing: true: a record of stage embedding is a row of its own, with all of its texts; leave it out"},
      {{"stage=reranker", "retrieval.pair_template='{query}'"},
       "retrieval.pair_template has no {document}: '{query}'; put both into it"},
      {{"stage=reranker", "retrieval.generative=true", "retrieval.pooling=mean"},
       "retrieval.generative: true takes the token after the last one; write retrieval.pooling: last"},
      {{"stage=reranker", "retrieval.generative=true", "retrieval.positive_token=a", "retrieval.negative_token=a"},
       "retrieval.positive_token and retrieval.negative_token are both 'a'; name two tokens"},
      {{"stage=classification", "data.over_length=split"},
       "data.over_length: split would part texts; write drop or truncate"}};
  for (const auto& [settings, wanted] : cases) EXPECT_EQ(RetrievalRefusal(settings), wanted);
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
  RetrievalConfig& retrieval = *config.mutable_retrieval();
  retrieval.set_pooling(POOLING_MEAN);
  retrieval.set_loss(EMBEDDING_LOSS_COSENT);
  retrieval.set_temperature(28);
  retrieval.set_in_batch(false);
  retrieval.set_mask_false_negatives(true);
  retrieval.set_false_negative_margin(29);
  retrieval.set_query_query(true);
  retrieval.set_document_document(true);
  retrieval.set_margin(30);
  retrieval.add_matryoshka(31);
  retrieval.add_matryoshka_weights(32);
  retrieval.set_ranking(RANKING_LOSS_LISTWISE);
  retrieval.set_problem(PROBLEM_REGRESSION);
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
                                .distillation = {.beta = 26, .temperature = 27},
                                .texts = {.pooling = TextPooling::kMean,
                                          .loss = VectorLoss::kCosent,
                                          .temperature = 28,
                                          .in_batch = false,
                                          .mask_false_negatives = true,
                                          .false_negative_margin = 29,
                                          .query_query = true,
                                          .document_document = true,
                                          .margin = 30,
                                          .matryoshka = {31},
                                          .matryoshka_weights = {32},
                                          .listwise = true,
                                          .labels = LabelKind::kRegression}};
  EXPECT_EQ(ObjectiveOptionsOf(config), wanted);
}

}  // namespace
}  // namespace trireme
