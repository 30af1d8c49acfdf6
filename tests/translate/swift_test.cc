// ms-swift's own rules: what a step holds, where lengths and defaults differ, and what is refused.
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/translate/translated.h"

namespace trireme {
namespace {

TEST(TranslateSwift, AStepIsPerDeviceTimesAccumulationTimesRanks) {
  const Config config =
      ConfigOf(TranslatedFile("run.sh",
                              "NPROC_PER_NODE=4 NNODES=2 swift sft --model m --dataset d.jsonl "
                              "--per_device_train_batch_size 2 --gradient_accumulation_steps 8 --max_length 64"));
  EXPECT_EQ(config.run().micro_batch(), 2);
  EXPECT_EQ(config.run().global_batch(), 2 * 8 * 8);
}

TEST(TranslateSwift, WithoutAccumulationAStepHasAtLeastSixteen) {
  const std::string line = "swift sft --model m --dataset d --max_length 64 --per_device_train_batch_size 3";
  EXPECT_EQ(ConfigOf(TranslatedCommand(line, 4)).run().global_batch(), 3 * 2 * 4);  // ceil(16 / 3 / 4) = 2
  EXPECT_EQ(ConfigOf(TranslatedCommand(line, 1)).run().global_batch(), 3 * 6);
  EXPECT_EQ(ConfigOf(TranslatedCommand(line + " --sequence_parallel_size 2", 4)).run().global_batch(), 3 * 2 * 2);
}

TEST(TranslateSwift, DefaultsAreWrittenOut) {
  const Config lora = ConfigOf(TranslatedCommand("swift sft --model m --dataset d --max_length 64"));
  EXPECT_EQ(lora.tuning().kind(), TUNING_LORA);
  EXPECT_DOUBLE_EQ(lora.optimizer().lr(), 1e-4);
  EXPECT_DOUBLE_EQ(lora.run().epochs(), 3);
  EXPECT_FALSE(lora.data().packing());
  EXPECT_EQ(lora.memory().recompute(), RECOMPUTE_FULL);
  EXPECT_EQ(lora.parallel().zero(), 0);
  EXPECT_DOUBLE_EQ(
      ConfigOf(TranslatedCommand("swift sft --model m --dataset d --max_length 64 --tuner_type full")).optimizer().lr(),
      1e-5);
}

TEST(TranslateSwift, EvaluationsNeedDataAndFollowSaves) {
  const std::string line = "swift sft --model m --dataset d --max_length 64 --save_steps 50";
  EXPECT_EQ(ConfigOf(TranslatedCommand(line)).eval().every(), 0);
  EXPECT_EQ(ConfigOf(TranslatedCommand(line + " --split_dataset_ratio 0.01")).eval().every(), 50);
  const Translation without = TranslatedCommand(line + " --eval_steps 20");
  EXPECT_NE(AllOf(without.left_out()).find("--eval_steps 20: there is no validation data"), std::string::npos);
}

TEST(TranslateSwift, DynamicFineTuningIsALoss) {
  const std::string line = "swift sft --model m --dataset d --max_length 64 --enable_dft_loss ";
  EXPECT_EQ(ConfigOf(TranslatedCommand(line + "true")).loss().kind(), TOKEN_LOSS_DFT);
  EXPECT_EQ(ConfigOf(TranslatedCommand(line + "false")).loss().kind(), TOKEN_LOSS_CROSS_ENTROPY);
}

TEST(TranslateSwift, LossScalesAreWeightsOfParts) {
  const std::string line = "swift sft --model m --dataset d --max_length 64 --loss_scale ";
  const Config think = ConfigOf(TranslatedCommand(line + "last_round+ignore_empty_think"));
  EXPECT_EQ(think.data().loss(), LOSS_LAST_ROUND);
  EXPECT_TRUE(think.data().skip_empty_think());
  EXPECT_EQ(think.data().loss_weights_size(), 0);
  const Config calls = ConfigOf(TranslatedCommand(line + "hermes+ignore_empty_think"));
  ASSERT_EQ(calls.data().loss_weights_size(), 1);
  EXPECT_EQ(calls.data().loss_weights(0), "<tool_call>...</tool_call>=2");
  EXPECT_TRUE(calls.data().skip_empty_think());
  const Config steps = ConfigOf(TranslatedCommand(line + "react"));
  ASSERT_EQ(steps.data().loss_weights_size(), 5);
  EXPECT_EQ(steps.data().loss_weights(4), "Observation:=2 0");
  for (const char* other : {"agentflan", "hermes+react", "mine"}) {
    EXPECT_NE(AllOf(TranslatedCommand(line + other).refused()).find("data.loss_weights has no entries"),
              std::string::npos)
        << other;
  }
}

TEST(TranslateSwift, NamesArePutIntoPlaceholders) {
  const std::string line =
      "swift sft --model m --dataset swift/self-cognition --max_length 64 --model_author swift --model_name ";
  const Config one = ConfigOf(TranslatedCommand(line + "robot"));
  ASSERT_EQ(one.data().replace_size(), 2);
  EXPECT_EQ(one.data().replace(0), "{{NAME}}=robot");
  EXPECT_EQ(one.data().replace(1), "{{AUTHOR}}=swift");
  const Translation two = TranslatedCommand(line + "Huang robot");
  EXPECT_EQ(ConfigOf(two).data().replace(0), "{{NAME}}=robot");
  EXPECT_NE(AllOf(two.warnings()).find("records in Chinese have Huang"), std::string::npos);
}

TEST(TranslateSwift, CompletionsOfASamplingAreCountedInSteps) {
  const std::string line =
      "swift rlhf --rlhf_type grpo --model m --dataset d --reward_funcs accuracy --per_device_train_batch_size 4 "
      "--gradient_accumulation_steps 2 --num_generations 8 --max_length 100 --max_completion_length 28";
  const Config once = ConfigOf(TranslatedCommand(line, 8));
  EXPECT_EQ(once.run().global_batch(), 64);
  EXPECT_EQ(once.rl().steps_per_generation(), 1);
  EXPECT_EQ(once.data().max_length(), 128);
  EXPECT_DOUBLE_EQ(once.rl().beta(), 0.04);
  EXPECT_DOUBLE_EQ(once.rl().temperature(), 0.9);
  EXPECT_FALSE(once.rl().bias_correction_kl());
  EXPECT_EQ(ConfigOf(TranslatedCommand(line + " --steps_per_generation 8", 8)).rl().steps_per_generation(), 4);
  EXPECT_EQ(ConfigOf(TranslatedCommand(line + " --generation_batch_size 128", 8)).rl().steps_per_generation(), 2);
}

TEST(TranslateSwift, BetaIsThatOfTheMethod) {
  const std::string line = "swift rlhf --model m --dataset d --max_length 64 ";
  EXPECT_DOUBLE_EQ(ConfigOf(TranslatedCommand(line + "--rlhf_type dpo --beta 0.3")).preference().beta(), 0.3);
  EXPECT_DOUBLE_EQ(ConfigOf(TranslatedCommand(line + "--rlhf_type simpo")).preference().beta(), 2);
  EXPECT_DOUBLE_EQ(
      ConfigOf(TranslatedCommand(line + "--rlhf_type gkd --teacher_model t --beta 0.7")).distillation().beta(), 0.7);
  EXPECT_EQ(
      ConfigOf(TranslatedCommand(line + "--rlhf_type grpo --advantage_estimator rloo --reward_funcs format")).stage(),
      STAGE_RLOO);
}

TEST(TranslateSwift, DataPreparedBeforeIsTheDataItself) {
  const std::string prepare =
      "swift export --model m --dataset a b#5 --split_dataset_ratio 0.01 --max_length 99 --to_cached_dataset true "
      "--output_dir ./prepared\n";
  const std::string run = "swift sft --model m --max_length 64 --cached_dataset prepared/train --cached_val_dataset ";
  const Config config = ConfigOf(TranslatedFile("run.sh", prepare + run + "'./prepared/val'\n"));
  ASSERT_EQ(config.data().train_size(), 2);
  EXPECT_EQ(config.data().train(1), "b#5");
  EXPECT_DOUBLE_EQ(config.data().valid_ratio(), 0.01);
  EXPECT_EQ(config.data().max_length(), 99);
  EXPECT_NE(AllOf(TranslatedFile("run.sh", prepare + run + "other/val\n").refused()).find("cached_dataset"),
            std::string::npos);
}

TEST(TranslateSwift, TheSameRunOnSeveralNodesIsOneRun) {
  const std::string line = " swift sft --model m --dataset d --max_length 64\n";
  EXPECT_EQ(ConfigOf(TranslatedFile("run.sh", "NNODES=2 NODE_RANK=0" + line + "NNODES=2 NODE_RANK=1" + line))
                .run()
                .global_batch(),
            16);
  EXPECT_THROW(TranslatedFile("run.sh", line + "swift sft --model m --dataset e --max_length 64\n"), Error);
}

TEST(TranslateSwift, AdaptersOfTheTower) {
  const std::string line =
      "swift sft --model Qwen/Qwen2.5-VL-7B-Instruct --dataset d --max_length 64 --target_modules all-linear ";
  const Config both = ConfigOf(TranslatedCommand(line + "--freeze_vit false --freeze_aligner false"));
  ASSERT_EQ(both.tuning().targets_size(), 3);
  EXPECT_EQ(both.tuning().targets(1), "vision");
  EXPECT_DOUBLE_EQ(both.tuning().dropout(), 0);
  const Config tower = ConfigOf(TranslatedCommand(line + "--freeze_vit false --freeze_llm true"));
  ASSERT_EQ(tower.tuning().targets_size(), 1);
  EXPECT_EQ(tower.tuning().targets(0), "vision");
  EXPECT_EQ(ConfigOf(TranslatedCommand(line + "--freeze_llm false")).tuning().targets(0), "all-linear");
}

TEST(TranslateSwift, ToolCallsAsTheTokenizerWritesThem) {
  const std::string line = "swift sft --dataset d --max_length 64 --agent_template hermes --model ";
  EXPECT_EQ(AllOf(TranslatedCommand(line + "Qwen/Qwen2.5-3B").refused()), "");
  EXPECT_NE(AllOf(TranslatedCommand(line + "ZhipuAI/GLM-4-9B-0414").refused()).find("agent_template"),
            std::string::npos);
}

TEST(TranslateSwift, PromptsMayHaveImages) {
  const std::string line = "swift rlhf --model Qwen/Qwen2.5-VL-7B-Instruct --dataset d --max_length 64 --rlhf_type ";
  EXPECT_EQ(AllOf(TranslatedCommand(line + "grpo --reward_funcs accuracy").refused()), "");
  EXPECT_EQ(AllOf(TranslatedCommand(line + "dpo").refused()), "");
}

const char* const kPlugin = R"(from swift.rewards import ORM, orms
class Right(ORM):
    """Name it in reward_funcs after
        orms['example'] = Right
    """
orms['right'] = Right
orms["short"] = Short  # fewer words
)";

// The command with `options` and a plug-in of this text; PLUGIN in the options is its path.
Translation WithPlugin(const std::string& text, std::string options) {
  const std::string path = (std::filesystem::path(testing::TempDir()) / "plugin.py").string();
  std::ofstream(path) << text;
  for (size_t at; (at = options.find("PLUGIN")) != std::string::npos;) options.replace(at, 6, path);
  const Translation result =
      TranslatedCommand("swift rlhf --rlhf_type grpo --model m --dataset d --max_length 64 " + options);
  std::filesystem::remove(path);
  return result;
}

TEST(TranslateSwift, RewardsOfAPluginAreItsClasses) {
  const Translation result =
      WithPlugin(kPlugin,
                 "--external_plugins PLUGIN --reward_funcs right format short --reward_model org/judge org/other "
                 "--reward_weights 1 2 3 4 5");
  const Config config = ConfigOf(result);
  ASSERT_EQ(config.rl().rewards_size(), 5);
  EXPECT_TRUE(config.rl().rewards(0).starts_with("python:")) << config.rl().rewards(0);
  EXPECT_TRUE(config.rl().rewards(0).ends_with("plugin.py:Right")) << config.rl().rewards(0);
  EXPECT_EQ(config.rl().rewards(1), "format");
  EXPECT_TRUE(config.rl().rewards(2).ends_with("plugin.py:Short")) << config.rl().rewards(2);
  EXPECT_EQ(config.rl().rewards(3), "model:org/judge");
  EXPECT_EQ(config.rl().rewards(4), "model:org/other");
  EXPECT_NE(AllOf(result.warnings()).find("external_plugins"), std::string::npos);
}

TEST(TranslateSwift, OtherPluginsAreRefused) {
  const auto refused = [](const std::string& text, const std::string& options) {
    return AllOf(WithPlugin(text, options).refused());
  };
  const std::string plugin = "--external_plugins PLUGIN ";
  EXPECT_NE(refused(kPlugin, plugin + "--reward_funcs accuracy").find("no reward of reward_funcs"), std::string::npos);
  EXPECT_NE(refused(kPlugin, plugin + "--reward_funcs example").find("no reward of reward_funcs"), std::string::npos);
  EXPECT_NE(refused(std::string(kPlugin) + "register_dataset(x)\n", plugin + "--reward_funcs right").find("register_d"),
            std::string::npos);
  EXPECT_NE(refused(kPlugin, "--external_plugins none.py --reward_funcs right").find("cannot read none.py"),
            std::string::npos);
  EXPECT_NE(refused(kPlugin, "--reward_funcs accuracy --vllm_server_pass_dataset true").find("several turns"),
            std::string::npos);
}

TEST(TranslateSwift, EvaluationsByEvalScopeChangeNoWeight) {
  const Translation result = TranslatedCommand(
      "swift sft --model m --dataset d --max_length 64 --eval_use_evalscope --eval_dataset gsm8k --eval_limit 10");
  EXPECT_EQ(AllOf(result.refused()), "");
  EXPECT_NE(AllOf(result.warnings()).find("--eval_dataset gsm8k"), std::string::npos);
}

TEST(TranslateSwift, FsdpsFileIsRead) {
  const auto path = std::filesystem::path(testing::TempDir()) / "fsdp.json";
  std::ofstream(path) << R"({"fsdp": "full_shard auto_wrap", "fsdp_config": {"reshard_after_forward": false,
                             "activation_checkpointing": true, "activation_cpu_offload": true}})";
  const Config config =
      ConfigOf(TranslatedCommand("swift sft --model m --dataset d --max_length 64 --fsdp " + path.string()));
  EXPECT_EQ(config.parallel().zero(), 2);
  EXPECT_EQ(config.memory().recompute(), RECOMPUTE_FULL);
  EXPECT_TRUE(config.memory().offload_activations());
  std::filesystem::remove(path);
}

TEST(TranslateSwift, TheFirstStepOfAWarmUpDiffers) {
  const std::string line = "swift sft --model m --dataset d --max_length 64 --warmup_ratio ";
  EXPECT_NE(AllOf(TranslatedCommand(line + "0.1").warnings()).find("warm-up"), std::string::npos);
  EXPECT_EQ(AllOf(TranslatedCommand(line + "0").warnings()).find("warm-up"), std::string::npos);
}

TEST(TranslateSwift, EveryMissingThingIsNamed) {
  const Translation result = TranslatedCommand(
      "swift sft --model m --dataset d --max_length 64 --tuner_type adalora --external_plugins x.py --fp16 true "
      "--use_galore false "
      "--nonsense 1");
  const std::string refused = AllOf(result.refused());
  for (const char* word : {"--tuner_type adalora", "--external_plugins x.py", "--fp16 true", "--nonsense 1"}) {
    EXPECT_NE(refused.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(refused.find("galore"), std::string::npos);
}

TEST(TranslateSwift, EachLineSaysWhereItCameFrom) {
  const std::string yaml =
      TranslatedCommand(
          "swift sft --model org/name --dataset a#500 b --lora_rank 4 --max_length 64 --attn_impl flash_attn")
          .Yaml("x");
  EXPECT_NE(yaml.find("\nmodel:\n  path: org/name  # --model org/name\n"), std::string::npos) << yaml;
  EXPECT_NE(yaml.find("\n  train: [a#500, b]  # --dataset a#500 b\n"), std::string::npos) << yaml;
  EXPECT_NE(yaml.find("\n  rank: 4  # --lora_rank 4\n"), std::string::npos) << yaml;
  EXPECT_NE(yaml.find("\n#   --attn_impl flash_attn: fused operators"), std::string::npos) << yaml;
}

TEST(TranslateSwift, MegatronHasItsOwnDefaultsAndLayout) {
  const Config config =
      ConfigOf(TranslatedCommand("megatron sft --model m --dataset d --max_length 64 --tensor_model_parallel_size 2 "
                                 "--expert_model_parallel_size 4 "
                                 "--micro_batch_size 2 --global_batch_size 32 --lr 2e-5 --min_lr 2e-6 "
                                 "--lr_warmup_fraction 0.05 --num_train_epochs 1 "
                                 "--recompute_granularity full --recompute_method uniform --recompute_num_layers 1 "
                                 "--moe_aux_loss_coeff 1e-3 --save out"));
  EXPECT_EQ(config.tuning().kind(), TUNING_FULL);
  EXPECT_EQ(config.parallel().tensor(), 2);
  EXPECT_EQ(config.parallel().expert(), 4);
  EXPECT_EQ(config.parallel().zero(), 1);
  EXPECT_FALSE(config.parallel().sequence());
  EXPECT_EQ(config.run().global_batch(), 32);
  EXPECT_DOUBLE_EQ(config.optimizer().warmup(), 0.05);
  EXPECT_DOUBLE_EQ(config.experts().balance_coefficient(), 1e-3);
  EXPECT_EQ(config.memory().recompute(), RECOMPUTE_FULL);
}

TEST(TranslateSwift, DeepSpeedByNameIsZero) {
  const Config config =
      ConfigOf(TranslatedCommand("swift sft --model m --dataset d --max_length 64 --deepspeed zero3_offload"));
  EXPECT_EQ(config.parallel().zero(), 3);
  EXPECT_TRUE(config.memory().offload_optimizer());
  EXPECT_TRUE(config.memory().offload_parameters());
}

}  // namespace
}  // namespace trireme
