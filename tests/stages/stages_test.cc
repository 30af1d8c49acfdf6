// The table of stages is whole, and agrees with the schema.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "core/config/schema.h"
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

}  // namespace
}  // namespace trireme
