// Where keys count: the schema's conditions name keys and values that exist, and every key is refused exactly in the
// stages and beside the values where it states that it has no part.
#include "core/config/scope.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/config/help.h"
#include "core/config/load.h"
#include "core/config/print.h"
#include "core/config/schema.h"
#include "core/config/unused_keys.h"
#include "tests/core/config/other_value.h"

namespace trireme {
namespace {

using Overrides = std::vector<std::string>;

std::vector<std::string> Stages() { return SpellingsOf(*Stage_descriptor()); }

bool Has(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

// What --set writes so that a condition holds, or does not.
std::string Setting(const KeyNeed& need, bool holds) {
  if (need.kind == KeyNeed::Kind::kHas) return Concat(need.key, "=[", holds ? need.values.front() : "", "]");
  if (holds == (need.kind == KeyNeed::Kind::kOneOf)) return Concat(need.key, "=", need.values.front());
  return Concat(need.key, "=", OtherValue(need.key, need.values));
}

// All conditions of a key, all but one of them met where `unmet` names one.
Overrides Settings(const KeyScope& scope, const KeyNeed* unmet = nullptr) {
  Overrides settings;
  for (const KeyNeed& need : scope.needs) settings.push_back(Setting(need, &need != unmet));
  return settings;
}

// What is said of the key; empty if it is accepted. Others may be refused, too.
std::string Refusal(const std::string& key, const std::string& stage, Overrides settings) {
  const std::string value = OtherValue(key);
  settings.push_back("stage=" + stage);
  settings.push_back(Concat(key, "=", value));
  const Config config = ParseConfig("", "run.yaml", settings);
  try {
    RefuseUnusedKeys(config, key);
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_TRUE(text.starts_with(key + " = ") && text.ends_with("; leave it out")) << text;
    return text;
  }
  return "";
}

TEST(KeyScopes, NameStagesKeysAndValuesThatExist) {
  for (const std::string& key : AllKeys()) {
    const KeyScope scope = ScopeOf(key);
    for (const std::string& stage : scope.stages) EXPECT_TRUE(Has(Stages(), stage)) << key << ": " << stage;
    for (const KeyNeed& need : scope.needs) {
      const KeyPlace other = FindKey(need.key);
      ASSERT_NE(other.field, nullptr) << key << " needs " << need.key;
      EXPECT_NE(need.key, key);
      EXPECT_EQ(other.field->is_repeated(), need.kind == KeyNeed::Kind::kHas || need.values.front() == "[]") << key;
      if (need.kind == KeyNeed::Kind::kHas) continue;
      for (const std::string& value : need.values) {  // as run.yaml has it: 0.0, not 0
        EXPECT_EQ(ValueOf(ParseConfig("", "run.yaml", {Concat(need.key, "=", value)}), need.key), value) << key;
      }
    }
  }
}

TEST(KeyScopes, EveryKeyCountsExactlyInItsStages) {
  int refused = 0;
  for (const std::string& key : AllKeys()) {
    const KeyScope scope = ScopeOf(key);
    if (key == "stage") continue;
    for (const std::string& stage : Stages()) {
      const bool counts = scope.stages.empty() || Has(scope.stages, stage);
      const std::string refusal = Refusal(key, stage, Settings(scope));
      EXPECT_EQ(refusal.empty(), counts) << key << " in stage " << stage << ": " << refusal;
      if (counts) continue;
      ++refused;
      EXPECT_NE(refusal.find(Concat(" is for ", StagesText(scope.stages), ", not ", stage, ";")), std::string::npos);
    }
  }
  EXPECT_GT(refused, 800);
}

TEST(KeyScopes, EveryKeyCountsOnlyBesideWhatItNeeds) {
  int refused = 0;
  for (const std::string& key : AllKeys()) {
    const KeyScope scope = ScopeOf(key);
    const std::string stage = scope.stages.empty() ? "sft" : scope.stages.front();
    for (const KeyNeed& need : scope.needs) {
      const std::string refusal = Refusal(key, stage, Settings(scope, &need));
      EXPECT_NE(refusal.find(need.key), std::string::npos) << key << " without " << need.key << ": " << refusal;
      ++refused;
      for (const std::string& value : need.values) {  // any of them
        if (need.kind == KeyNeed::Kind::kHas) continue;
        Overrides settings = Settings(scope);
        settings.push_back(Concat(need.key, "=", value));
        EXPECT_EQ(Refusal(key, stage, settings).empty(), need.kind == KeyNeed::Kind::kOneOf) << key << ": " << value;
      }
    }
  }
  EXPECT_GT(refused, 50);
}

TEST(KeyScopes, ADefaultIsNotSet) {
  for (const std::string& stage : Stages()) {
    EXPECT_NO_THROW(RefuseUnusedKeys(ParseConfig("", "run.yaml", {"stage=" + stage}))) << stage;
  }
}

struct Case {
  Overrides settings;
  std::string text;
};

TEST(KeyScopes, SayTheKeyItsValueWhyAndWhatToDo) {
  const Case cases[] = {
      {{"stage=grpo", "rl.gamma=0.9"}, "rl.gamma = 0.9 is for stage ppo, not grpo; leave it out"},
      {{"loss.label_smoothing=0.1", "stage=dpo"},
       "loss.label_smoothing = 0.1 is for stages pt and sft, not dpo; leave it out"},
      {{"tuning.last_layers=1"}, "tuning.last_layers = 1 is for tuning.kind freeze, not lora; leave it out"},
      {{"optimizer.ema=0.5"}, "optimizer.ema = 0.5 is for tuning.kind full or freeze, not lora; leave it out"},
      {{"stage=rloo", "rl.sampler_clip_max=2"},
       "rl.sampler_clip_max = 2.0 has no part in this run: rl.sampler_correction is none; leave it out"},
      {{"stage=grpo", "rl.max_turns=3"},
       "rl.max_turns = 3 has no part in this run: rl.environment is empty; leave it out"},
      {{"stage=grpo", "rl.sampling.tensor=2", "rl.rollouts=inbox"},
       "rl.sampling.tensor = 2 has no part in this run: rl.rollouts is set; leave it out"},
      {{"stage=dpo", "preference.discopop_tau=0.1", "preference.loss=[sigmoid]"},
       "preference.discopop_tau = 0.1 has no part in this run: preference.loss has no discopop; leave it out"},
      {{"log.name=first"}, "log.name = first has no part in this run: log.report_to is empty; leave it out"},
      {{"stage=bco", "preference.loss=[kto]"},
       "preference.loss = [kto] is for stages dpo, kto, simpo and cpo, not bco; leave it out"},
      {{"stage=reranker", "retrieval.temperature=2"}, ""},
      {{"stage=reranker", "retrieval.loss=cosent"},
       "retrieval.loss = cosent is for stage embedding, not reranker; leave it out"},
      {{"stage=embedding", "retrieval.loss=cosent", "retrieval.in_batch=false"},
       "retrieval.in_batch = false is for retrieval.loss infonce, not cosent; leave it out"},
      {{"stage=bco", "preference.beta=0.5", "preference.precompute_ref_log_probs=true"}, ""},
      {{"stage=gkd", "rl.temperature=0.5"}, ""},
      {{"stage=dpo", "preference.discopop_tau=0.1", "preference.loss=[sigmoid, discopop]"}, ""}};
  for (const Case& one : cases) {
    Problems problems;
    RefuseUnusedKeys(ParseConfig("", "run.yaml", one.settings), problems);
    std::string text;
    try {
      problems.ThrowIfAny();
    } catch (const Error& error) {
      text = error.what();
    }
    EXPECT_EQ(text, one.text);
  }
}

TEST(KeyScopes, AGroupIsTheStagesThatStateIt) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(StagesOf("ppo, gkd"), (Names{"ppo", "gkd"}));
  EXPECT_EQ(StagesOf("reference, gkd"),
            (Names{"dpo", "kto", "grpo", "rloo", "reinforce_plus_plus", "ppo", "bco", "gkd"}));
  EXPECT_EQ(StagesOf("stored_reference"), (Names{"dpo", "kto", "bco"}));
  EXPECT_EQ(StagesOf("retrieval"), (Names{"embedding", "reranker", "classification"}));
}

TEST(KeyScopes, AreInTheManual) {
  EXPECT_EQ(ScopeText({}), "");
  EXPECT_EQ(ScopeText(ScopeOf("rl.sampler.concurrency")),
            "Only in stages grpo, rloo, reinforce_plus_plus and ppo, with rl.sampler.endpoint set.");
  EXPECT_EQ(ScopeText(ScopeOf("model.rope.beta_fast")), "Only with model.rope.kind yarn.");
  EXPECT_EQ(ScopeText(ScopeOf("rl.kl_horizon")),
            "Only in stage ppo, with rl.beta other than 0.0 and rl.kl_target other than 0.0.");
  const std::string help = ConfigHelp();
  EXPECT_NE(help.find("Only in stages pt and sft."), std::string::npos);
  EXPECT_NE(help.find("Only with memory.recompute full."), std::string::npos);
}

}  // namespace
}  // namespace trireme
