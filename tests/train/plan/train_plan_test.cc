// The plan of a run, in one process: every refusal with its message, and what the text shows. The command
// itself is tested by tests/scripts/dry_run_test.
#include "train/plan/train_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/config/load.h"
#include "core/config/scope.h"
#include "core/config/unused_keys.h"
#include "parallel/sharding/optimizers.h"
#include "tests/core/config/other_value.h"

namespace trireme {
namespace {

using Overrides = std::vector<std::string>;

class TrainPlanTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ + "/model");
    WriteModel("qwen3");
    std::ofstream(folder_ + "/there.jsonl") << "{}\n";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void WriteModel(const std::string& type, int layers = 5) const {
    const Json config = {
        {"model_type", type},         {"vocab_size", 64},         {"hidden_size", 64}, {"num_hidden_layers", layers},
        {"num_attention_heads", 4},   {"num_key_value_heads", 2}, {"head_dim", 16},    {"intermediate_size", 96},
        {"tie_word_embeddings", true}};
    std::ofstream(folder_ + "/model/config.json") << JsonLine(config);
  }

  Config ConfigWith(const Overrides& overrides) const {
    const std::string yaml = Concat("model: {path: ", folder_,
                                    "/model, init: random}\n"
                                    "tuning: {kind: full}\n"
                                    "data: {max_length: 32}\n"
                                    "run: {global_batch: 6, steps: 100}\n");
    return ParseConfig(yaml, "run.yaml", overrides);
  }

  TrainPlan Plan(int world, const Overrides& overrides) const { return MakeTrainPlan(ConfigWith(overrides), world); }

  // Collapses whitespace.
  std::string Text(int world, const Overrides& overrides) const {
    std::istringstream words(ToText(Plan(world, overrides)));
    std::string text;
    for (std::string word; words >> word;) text += word + " ";
    return text;
  }

  void ExpectShown(const std::string& text, const Overrides& parts) const {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }

  std::string Refusal(int world, const Overrides& overrides) const {
    try {
      Plan(world, overrides);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "accepted";
  }

  void ExpectRefused(const std::string& wanted, int world, const Overrides& overrides) const {
    EXPECT_EQ(Refusal(world, overrides).substr(0, wanted.size()), wanted);
  }

  std::string folder_ = testing::TempDir() + "trireme_train_plan_" + std::to_string(getpid());
};

// A layer: 64 · (64 + 2 · 32 + 64) + 3 · 64 · 96 products, norms 2 · 64 + 2 · 16; the embedding 64 · 64; a
// norm
// 64. Forward of a token: 2 · 30720 + attention 2 · 64 · 32 = 65536; the head 8192; together 335872.
TEST(CommOptions, EachKeyReachesItsOwn) {
  const CommOptions options =
      CommOptionsOf(ParseConfig("", "run.yaml",
                                {"comm.connect_timeout_seconds=301", "comm.exec_timeout_seconds=402",
                                 "comm.hang_report_seconds=53", "run.deterministic=true"}));
  EXPECT_EQ(options.connect_timeout_s, 301);
  EXPECT_EQ(options.exec_timeout_s, 402);
  EXPECT_EQ(options.hang_report_s, 53);
  EXPECT_TRUE(options.deterministic);
}

TEST_F(TrainPlanTest, ShowsModelGroupsStagesScheduleAndLength) {
  ExpectShown(
      Text(4, {"parallel.pipeline=4"}),
      {"model: qwen3, 158560 parameters, 5 decoder layers", "embedding pp 1 2 2 x 64 [0,3]",
       " 0 0 0 0 19.5 % embedding, layers.0 1 ", " 2 2 0 2 39.0 % layers.2-3 3 3 0 3 22.0 % layers.4, head schedule",
       "rank 3 |. . . F0 B0 - F1 B1 -", "bubble of a step with 6 micro batches: 33.3 % of the time",
       // 6 · 32 · 3 · 335872
       "a step: 6 sequences of at most 32 tokens, 192 in total; 1.9e+08 operations",
       "6 micro batches of 1 on each of 1 data-parallel rank steps: 100, at most 1.9e+04 tokens"});
}

TEST_F(TrainPlanTest, ShowsStagesOfAVAndUnevenBatches) {
  ExpectShown(Text(4, {"parallel.pipeline=2", "parallel.schedule=dualpipev", "parallel.stage_layers=[2, 1, 1, 1]",
                       "run.global_batch=7", "run.steps=0", "run.epochs=2", "tuning.kind=lora"}),
              {" 0 0 0 0-1 39.0 % embedding, layers.0-1 1 1 0 2-3 19.5 % layers.2 2 1 1 2-3 19.5 % layers.3 "
               "3 0 1 0-1 22.0 % layers.4, head",
               "4 micro batches of 1 on each of 2 data-parallel ranks, 1 of 8 slots stay empty",
               "as many as run.epochs = 2 takes",
               // Adapters of rank 8 in 5 layers: (64 + 64) + 2 · (64 + 32) + (64 + 64) of attention, 3 · (64 + 96) of
               // the mlp.
               "model: qwen3, 195680 parameters, 5 decoder layers trained: 37120 of them"});
}

TEST_F(TrainPlanTest, DrawsAtMostSixteenMicroBatchesAndReportsIt) {
  ExpectShown(Text(2, {"run.global_batch=40", "parallel.pipeline=2"}),
              {"drawn for 16 of the 40 micro batches of a step: 1f1b, 2 ranks, 16 micro batches",
               "bubble of a step with 40 micro batches: 2.4 %"});
  EXPECT_EQ(Text(1, {"run.global_batch=16"}).find("drawn"), std::string::npos);
}

TEST_F(TrainPlanTest, PlansMemoryForEveryRank) {
  const TrainPlan plan = Plan(8, {"parallel.pipeline=2", "parallel.tensor=2"});
  ASSERT_EQ(plan.memory.size(), 8u);
  EXPECT_EQ(plan.memory[0], plan.memory[3]);
  EXPECT_EQ(plan.memory[0].logits, 0);
  EXPECT_GT(plan.memory[4].logits, 0);
}

// Not only for the steps drawn: rank 0 of 20 saves 20 micro batches of 40. Per token and layer: residual and
// norms 4 · 64, heads 2 · 128, attention 64, gate and up 192, their product 96.
// Records have any number of texts: where the data says how many, the plan takes them.
TEST_F(TrainPlanTest, PlansMemoryForTheTextsOfTheData) {
  TrainPlan plan = Plan(1, {"stage=embedding"});
  const int64_t of_pairs = plan.memory[0].device();
  PlanMemoryFor(plan, int64_t{2} * 32);
  EXPECT_EQ(plan.memory[0].device(), of_pairs) << "an anchor and its positive, of data.max_length each";
  PlanMemoryFor(plan, int64_t{8} * 32);
  EXPECT_GT(plan.memory[0].device(), of_pairs);
}

TEST_F(TrainPlanTest, PlansMemoryForAWholeStep) {
  WriteModel("qwen3", 20);
  const TrainPlan plan = Plan(20, {"parallel.pipeline=20", "run.global_batch=40"});
  EXPECT_EQ(plan.memory[0].activations, 20 * 32 * 2 * (256 + 256 + 64 + 192 + 96));
}

TEST_F(TrainPlanTest, RefusesLayouts) {
  ExpectRefused(
      "world 1 is not divisible by tensor 1 x pipeline 2 x context 1 = 2; use a multiple of 2 ranks (mpirun -n 2 "
      "build/trireme …, or scripts/run.sh), or lower parallel.pipeline",
      1, {"parallel.pipeline=2"});
  ExpectRefused("world 6 is not divisible by tensor 4 x pipeline 1 x context 1 = 4", 6, {"parallel.tensor=4"});
  ExpectRefused("layers.0: 4 attention heads are not divisible by parallel.tensor = 3; choose", 3,
                {"parallel.tensor=3"});
  ExpectRefused("6 stages (parallel.pipeline and virtual_stages) for 5 decoder layers; lower them to at most 5 stages",
                6, {"parallel.pipeline=6"});
  ExpectRefused("6 stages (parallel.pipeline and virtual_stages) for 5 decoder layers", 3,
                {"parallel.pipeline=3", "parallel.schedule=interleaved", "parallel.virtual_stages=2"});
  ExpectRefused("6 stages (parallel.pipeline and virtual_stages) for 5 decoder layers", 3,
                {"parallel.pipeline=3", "parallel.schedule=dualpipev"});
  ExpectRefused("parallel.stage_layers = [3, 3] adds up to 6 decoder layers; the model has 5", 2,
                {"parallel.pipeline=2", "parallel.stage_layers=[3, 3]"});
  ExpectRefused("parallel.stage_layers = [5] lists 1 stage; parallel.pipeline and virtual_stages make 2", 2,
                {"parallel.pipeline=2", "parallel.stage_layers=[5]"});
  ExpectRefused(
      "parallel.ulysses = 2 does not divide parallel.context = 3, as context_method hybrid requires; choose a "
      "divisor of 3",
      3, {"parallel.context=3", "parallel.context_method=hybrid"});
  ExpectRefused("parallel.expert = 2, expert_tensor = 1: qwen3 has no experts to split; set both to 1", 2,
                {"parallel.expert=2"});
  ExpectRefused("experts.capacity = 0 leaves no token for any expert; set it above 0", 1,
                {"experts.capacity=0", "experts.overflow=drop"});
  const std::string expected = "experts.exchange=expected";
  ExpectRefused(
      "experts.exchange expected: experts.dispatch all_gather sends every token to every rank; choose all_to_all", 1,
      {expected, "experts.dispatch=all_gather"});
  ExpectRefused("experts.exchange expected: experts.overflow pad sizes every expert by the batch's tokens; choose keep",
                1, {expected, "experts.overflow=pad"});
  ExpectRefused("experts.exchange expected: a step of this stage waits for its numbers anyway; leave it out", 1,
                {expected, "stage=rm"});
  ExpectRefused("experts.balance pooled sums the counts of all layers, which parallel.pipeline = 2 splits", 2,
                {"parallel.pipeline=2", "experts.balance=pooled", "experts.balance_coefficient=0.1"});
}

// What the schema says of a key, the plan says, and no more: each key in a stage where it counts and in one where it
// does not. All stages, and all that keys need, are walked over by tests/core/config/scope_test.cc.
TEST_F(TrainPlanTest, RefusesKeysWhereTheyHaveNoPart) {
  const std::vector<std::string> stages = SpellingsOf(*Stage_descriptor());
  for (const std::string& key : AllKeys()) {
    const std::vector<std::string> in = ScopeOf(key).stages;
    const auto counts = [&](const std::string& stage) {
      return in.empty() || std::ranges::find(in, stage) != in.end();
    };
    Overrides tried = {*std::ranges::find_if(stages, counts)};
    if (const auto other = std::ranges::find_if_not(stages, counts); other != stages.end()) tried.push_back(*other);
    if (key == "stage") continue;
    for (const std::string& stage : tried) {
      const Overrides overrides = {"stage=" + stage, Concat(key, "=", OtherValue(key))};
      std::string wanted;
      try {
        RefuseUnusedKeys(ConfigWith(overrides), key);
      } catch (const Error& error) {
        wanted = error.what();
      }
      EXPECT_TRUE(counts(stage) || !wanted.empty()) << key;
      const std::string refusal = Refusal(1, overrides);
      EXPECT_NE(refusal.find(wanted), std::string::npos) << key << " in stage " << stage << ": " << refusal;
      std::istringstream lines(refusal);
      for (std::string line; std::getline(lines, line);) {
        const bool unused = line.starts_with(key + " = ") && line.ends_with("; leave it out");
        EXPECT_EQ(unused, line == wanted) << "of a key that counts in stage " << stage << ": " << line;
      }
    }
  }
}

TEST(KeyScopes, NameOptimizersThatExist) {
  const std::vector<std::string> names = OptimizerNames();
  int checked = 0;
  for (const std::string& key : AllKeys()) {
    for (const KeyNeed& need : ScopeOf(key).needs) {
      if (need.key != "optimizer.name") continue;
      for (const std::string& name : need.values) EXPECT_NE(std::ranges::find(names, name), names.end()) << key;
      ++checked;
    }
  }
  EXPECT_GT(checked, 4);
}

TEST_F(TrainPlanTest, RefusesSchedules) {
  const Overrides two = {"parallel.pipeline=2"};
  const auto with = [&](Overrides more) {
    more.insert(more.begin(), two.begin(), two.end());
    return more;
  };
  ExpectRefused(
      "schedule 1f1b with virtual_stages = 2; it has one stage per rank: write virtual_stages: 1 or "
      "schedule: interleaved",
      2, with({"parallel.virtual_stages=2"}));
  ExpectRefused("schedule zero_bubble with virtual_stages = 2; it has one stage per rank", 2,
                with({"parallel.schedule=zero_bubble", "parallel.virtual_stages=2"}));
  ExpectRefused("schedule dualpipev with virtual_stages = 3; it has two stages per rank", 2,
                with({"parallel.schedule=dualpipev", "parallel.virtual_stages=3"}));
  ExpectRefused("schedule interleaved with virtual_stages = 1; wanted at least 2", 2,
                with({"parallel.schedule=interleaved"}));
}

TEST_F(TrainPlanTest, RefusesValues) {
  const std::string in_backward = "optimizer.update=in_backward",
                    freed = "optimizer.update in_backward frees a gradient before the next one is complete: ";
  ExpectRefused(freed + "wanted one process, there are 2", 2, {in_backward, "optimizer.clip=0", "run.micro_batch=2"});
  ExpectRefused(freed + "the norm to clip by is not known then", 1, {in_backward});
  ExpectRefused(freed + "wanted one micro batch", 1, {in_backward, "optimizer.clip=0", "run.global_batch=8"});
  ExpectRefused("optimizer.masters split keeps a master's halves together on the device", 1,
                {"optimizer.masters=split", "memory.offload_optimizer=true"});
  ExpectRefused("optimizer.min_lr = 1 is above optimizer.lr = 0.5", 1, {"optimizer.lr=0.5", "optimizer.min_lr=1"});
  ExpectRefused("run.global_batch = 2000000000 makes 2000000000 micro batches per step; wanted at most 1048576", 1,
                {"run.global_batch=2000000000"});
  ExpectRefused(
      "run.micro_batch = 2000000000 x data.max_length = 2 = 4000000000 tokens at once; wanted at most "
      "2147483647",
      1, {"run.micro_batch=2000000000", "data.max_length=2"});
}

TEST_F(TrainPlanTest, RefusesMissingFiles) {
  const std::string there = folder_ + "/there.jsonl", none = folder_ + "/none";
  EXPECT_EQ(Refusal(1, {"data.train=[" + there + "]", "data.valid=[" + there + "]", "run.resume=never"}), "accepted");
  ExpectRefused("data.train: " + none + " does not exist", 1, {"data.train=[" + there + ", " + none + "]"});
  ExpectRefused("data.valid: " + none + " does not exist", 1, {"data.valid=[" + none + "]"});
  ExpectRefused("run.resume: " + none + " does not exist", 1, {"run.resume=" + none});
  ExpectRefused("model.path is empty; set it to the directory of a Hugging Face model", 1, {"model.path=\"\""});
  ExpectRefused(none + "/config.json: cannot be read: No such file or directory", 1, {"model.path=" + none});
  ExpectRefused(folder_ + "/model: has no weights; wanted model.safetensors", 1, {"model.init=weights"});
}

TEST_F(TrainPlanTest, RefusesAnUnknownModel) {
  WriteModel("gpt2");
  ExpectRefused(folder_ +
                    "/model/config.json: model_type 'gpt2' is not supported; supported: "
                    "baichuan, bailing_moe, bailing_moe_v2, deepseek_v2, deepseek_v3, dots1, ernie4_5, ernie4_5_moe, "
                    "exaone4, exaone_moe, gemma, gemma2, gemma3_text, glm, glm4, glm4_moe, glm4_moe_lite, gpt_oss, "
                    "granite, hunyuan_v1_dense, hunyuan_v1_moe, hy_v3, internlm2, internlm3, internvl, kimi_k2, llama, "
                    "minicpm, minicpm3, minimax_m2, ministral, mistral, mixtral, olmo2, olmo3, olmoe, phi3, qwen2, "
                    "qwen2_5_vl, qwen2_moe, qwen3, qwen3_5, qwen3_5_moe, qwen3_5_moe_text, qwen3_5_text, qwen3_moe, "
                    "qwen3_next, qwen3_vl, qwen3_vl_moe, seed_oss, smollm3, solar_open",
                1, {});
}

}  // namespace
}  // namespace trireme
