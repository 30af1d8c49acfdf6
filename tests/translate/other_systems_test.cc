// Megatron's scripts with the model's shape, verl's overrides, TRL's command line: what a step holds, and how long it
// learns.
#include <gtest/gtest.h>

#include "tests/translate/translated.h"
#include "translate/model_shape.h"

namespace trireme {
namespace {

const char* const kScript =
    "NPUS=8\nTP=2\nPP=2\nARGS=\"\n  --tensor-model-parallel-size ${TP} \\\n  --pipeline-model-parallel-size ${PP} \\\n "
    " --micro-batch-size 1 \\\n"
    "  --lr 1e-5 --min-lr 1e-6 --lr-decay-style cosine --lr-warmup-fraction 0.01 --hidden-dropout 0.0 "
    "--attention-dropout 0.0\n\"\n"
    "SHAPE=(--num-layers 8 --hidden-size 64 --ffn-hidden-size 256 --num-attention-heads 8 --group-query-attention "
    "--num-query-groups 2\n"
    "  --padded-vocab-size 512 --rotary-base 1000000 --norm-epsilon 1e-6 --qk-layernorm "
    "--untie-embeddings-and-output-weights --swiglu\n"
    "  --normalization RMSNorm --position-embedding-type rope --max-position-embeddings 4096 --kv-channels 16)\n"
    "torchrun --nproc_per_node $NPUS pretrain_gpt.py $ARGS \"${SHAPE[@]}\" --data-path /data/text_document "
    "--seq-length 128 \\\n"
    "  --tokenizer-type PretrainedFromHF --tokenizer-name-or-path /models/m --split 100,0,0 --bf16 ";

TEST(TranslateMegatron, BatchAndLayout) {
  const Config config = ConfigOf(
      TranslatedFile("run.sh", std::string(kScript) + "--train-iters 100 --num-layers-per-virtual-pipeline-stage 2 "
                                                      "--eval-interval 50 --eval-iters 10"));
  EXPECT_EQ(config.run().global_batch(), 2);  // 8 ranks over 2 x 2
  EXPECT_EQ(config.run().steps(), 100);
  EXPECT_EQ(config.eval().every(), 0);  // --split leaves nothing to evaluate on
  EXPECT_EQ(config.eval().batches(), 10);
  EXPECT_EQ(config.parallel().virtual_stages(), 2);
  EXPECT_EQ(config.parallel().schedule(), "interleaved");
  EXPECT_EQ(config.data().train(0), "/data/text_document.bin");
  EXPECT_EQ(config.data().split(0), 100);
  EXPECT_EQ(config.model().init(), MODEL_INIT_RANDOM);
  EXPECT_EQ(config.parallel().zero(), 0);
  EXPECT_EQ(config.run().seed(), 1234);
  EXPECT_DOUBLE_EQ(config.optimizer().beta2(), 0.999);
  EXPECT_DOUBLE_EQ(config.optimizer().warmup(), 0.01);
}

TEST(TranslateMegatron, SamplesAreSteps) {
  const Config config = ConfigOf(TranslatedFile(
      "run.sh", std::string(kScript) + "--global-batch-size 16 --train-samples 1600 --lr-warmup-samples 40"));
  EXPECT_EQ(config.run().steps(), 100);
  EXPECT_EQ(config.optimizer().warmup_steps(), 3);
}

TEST(TranslateMegatron, DecayOverAnotherNumberOfStepsIsRefused) {
  const Translation result = TranslatedFile("run.sh", std::string(kScript) + "--train-iters 100 --lr-decay-iters 80");
  EXPECT_EQ(AllOf(result.refused()), "--lr-decay-iters: the rate decays over 80 of 100 steps; here over all of them\n");
}

TEST(TranslateMegatron, FlagsOfTheShapeAreAConfig) {
  const FoundRun run = RunOfFile("run.sh", std::string(kScript) + "--noop-layers 6,7");
  Translation unused;
  const std::string json = ModelConfigJson(run.given, FamilyOf(run.given, unused));
  for (const char* line :
       {"\"model_type\": \"qwen3\"", "\"num_hidden_layers\": 6", "\"hidden_size\": 64", "\"intermediate_size\": 256",
        "\"num_key_value_heads\": 2", "\"head_dim\": 16", "\"vocab_size\": 512", "\"rms_norm_eps\": 1e-06",
        "\"rope_theta\": 1000000", "\"tie_word_embeddings\": false"}) {
    EXPECT_NE(json.find(line), std::string::npos) << line << "\n" << json;
  }
}

TEST(TranslateMegatron, ExpertsChosenAsInDeepSeekV2Lite) {
  const FoundRun run =
      RunOfFile("run.sh", std::string(kScript) +
                              "--train-iters 10 --num-experts 64 --moe-router-load-balancing-type "
                              "pai_megatron_aux_loss --moe-aux-loss-coeff 0.01 --moe-router-num-groups 8 "
                              "--multi-latent-attention --model-type-hf deepseek2-lite");
  const Config config = ConfigOf(Translate(run, {}));
  EXPECT_EQ(config.experts().balance(), BALANCE_BATCH);
  EXPECT_DOUBLE_EQ(config.experts().balance_coefficient(), 0.01);
  EXPECT_NE(ModelConfigJson(run.given, "deepseek_v2").find("\"n_group\": 1,"), std::string::npos);
}

TEST(TranslateMegatron, FamiliesByMindSpeedsNames) {
  for (const auto& [theirs, ours] : {std::pair("seed-oss", "seed_oss"), std::pair("bailing_mini", "bailing_moe"),
                                     std::pair("hunyuan3", "hy_v3"), std::pair("longcat", "")}) {
    const FoundRun run = RunOfFile("run.sh", std::string(kScript) + "--train-iters 10 --model-type-hf " + theirs);
    Translation result;
    EXPECT_EQ(FamilyOf(run.given, result), ours);
    EXPECT_EQ(result.refused().empty(), *ours != '\0') << theirs;
  }
}

TEST(TranslateVerl, PromptsBecomeCompletions) {
  const std::string line =
      "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_files=/d/train.parquet "
      "data.train_batch_size=1024 "
      "data.max_prompt_length=512 data.max_response_length=1024 actor_rollout_ref.model.path=org/m "
      "actor_rollout_ref.actor.ppo_mini_batch_size=256 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 "
      "actor_rollout_ref.rollout.n=5 actor_rollout_ref.actor.use_kl_loss=True "
      "actor_rollout_ref.actor.kl_loss_coef=0.01 "
      "trainer.save_freq=-1 trainer.total_epochs=15 trainer.logger=['console','wandb','mlflow']";
  const Config config = ConfigOf(TranslatedCommand(line));
  EXPECT_EQ(config.rl().group(), 5);
  EXPECT_EQ(config.run().global_batch(), 1280);
  EXPECT_EQ(config.run().micro_batch(), 4);
  EXPECT_EQ(config.rl().steps_per_generation(), 4);
  EXPECT_EQ(config.data().max_length(), 1536);
  EXPECT_EQ(config.rl().max_new_tokens(), 1024);
  EXPECT_DOUBLE_EQ(config.rl().beta(), 0.01);
  EXPECT_EQ(config.rl().loss(), "bnpo");
  EXPECT_DOUBLE_EQ(config.rl().delta(), 3);
  EXPECT_EQ(config.save().every(), 0);
  EXPECT_EQ(config.parallel().zero(), 3);
  EXPECT_EQ(config.optimizer().schedule(), LR_CONSTANT);
  EXPECT_EQ(config.log().report_to(0), "wandb");
  EXPECT_EQ(config.log().report_to(1), "mlflow");
  const std::string refused =
      AllOf(TranslatedCommand(line + " algorithm.use_kl_in_reward=True data.image_key=pictures").refused());
  EXPECT_NE(refused.find("use_kl_in_reward"), std::string::npos) << refused;
  EXPECT_NE(refused.find("data.image_key=pictures"), std::string::npos) << refused;
}

const char* const kVerl =
    "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_files=/d/train.parquet "
    "data.max_response_length=1000 actor_rollout_ref.model.path=org/m data.train_batch_size=64 "
    "actor_rollout_ref.actor.ppo_mini_batch_size=32 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 "
    "actor_rollout_ref.actor.use_kl_loss=False ";

TEST(TranslateVerl, EvaluationsCountSamplingsThereAndUpdatesHere) {
  const std::string line = std::string(kVerl) +
                           "data.val_files=['/d/a.parquet','/d/b.parquet'] trainer.test_freq=5 trainer.save_freq=10 "
                           "trainer.total_training_steps=20 actor_rollout_ref.rollout.val_kwargs.n=4 "
                           "actor_rollout_ref.rollout.val_kwargs.do_sample=True "
                           "actor_rollout_ref.rollout.val_kwargs.temperature=0.6 "
                           "actor_rollout_ref.rollout.val_kwargs.top_k=-1 custom_reward_function.path=/r/mine.py ";
  const Config config = ConfigOf(TranslatedCommand(line));
  EXPECT_EQ(config.data().valid_size(), 2);
  EXPECT_EQ(config.eval().every(), 10) << "two updates each";
  EXPECT_EQ(config.save().every(), 20);
  EXPECT_EQ(config.run().steps(), 40);
  EXPECT_TRUE(config.eval().at_start());
  EXPECT_EQ(config.eval().completions(), 4);
  EXPECT_DOUBLE_EQ(config.eval().temperature(), 0.6);
  EXPECT_EQ(config.eval().top_k(), 0);
  EXPECT_EQ(config.rl().rewards(0), "python:/r/mine.py:compute_score");

  EXPECT_EQ(config.data().columns_size(), 0) << "a function of its own finds the truth";

  const std::string greedy = std::string(kVerl) + "data.val_files=/d/a.parquet trainer.test_freq=5 ";
  EXPECT_DOUBLE_EQ(ConfigOf(TranslatedCommand(greedy)).eval().temperature(), 0);
  const Config none =
      ConfigOf(TranslatedCommand(std::string(kVerl) + "data.val_files=/d/a.parquet trainer.test_freq=-1 "
                                                      "trainer.val_before_train=False "
                                                      "actor_rollout_ref.rollout.val_kwargs.n=4"));
  EXPECT_EQ(none.data().valid_size(), 0);
  EXPECT_EQ(none.eval().every(), 0);
}

TEST(TranslateVerl, TheTruthIsWhereItsDataHasIt) {
  const std::string line = std::string(kVerl);
  const Config config = ConfigOf(TranslatedCommand(line));
  ASSERT_EQ(config.data().columns_size(), 1);
  EXPECT_EQ(config.data().columns(0), "reward_model.ground_truth=solution");
  EXPECT_EQ(config.rl().rewards(0), "accuracy");
  EXPECT_EQ(ConfigOf(TranslatedCommand(line + "data.prompt_key=turns")).data().columns(0), "turns=messages");
}

TEST(TranslateVerl, ThePenaltyOfLongCompletionsIsAReward) {
  const std::string line = std::string(kVerl) +
                           "reward.reward_manager.name=dapo "
                           "+reward.reward_kwargs.overlong_buffer_cfg.enable=True "
                           "+reward.reward_kwargs.overlong_buffer_cfg.penalty_factor=0.5 "
                           "+reward.reward_kwargs.overlong_buffer_cfg.len=";
  const Config config = ConfigOf(TranslatedCommand(line + "200"));
  ASSERT_EQ(config.rl().rewards_size(), 2);
  EXPECT_EQ(config.rl().rewards(1), "soft_overlong");
  EXPECT_DOUBLE_EQ(config.rl().reward_weights(1), 0.5);
  EXPECT_EQ(ConfigOf(TranslatedCommand(line + "100")).rl().rewards(1), "soft_overlong:100");
  EXPECT_NE(AllOf(TranslatedCommand(line + "1001").refused()).find("the last 1001 of 1000 tokens"), std::string::npos);
}

TEST(TranslateVerl, ClipsAreThoseOfTheLoss) {
  const std::string line = std::string(kVerl) + "actor_rollout_ref.actor.clip_ratio=0.3 ";
  EXPECT_DOUBLE_EQ(ConfigOf(TranslatedCommand(line)).rl().epsilon(), 0.3);
  EXPECT_DOUBLE_EQ(ConfigOf(TranslatedCommand(line)).rl().epsilon_high(), 0.3);
  const Config cispo =
      ConfigOf(TranslatedCommand(
          line + "actor_rollout_ref.actor.policy_loss.loss_mode=cispo actor_rollout_ref.actor.clip_ratio_low=10 "
                 "actor_rollout_ref.actor.clip_ratio_high=4"));
  EXPECT_EQ(cispo.rl().loss(), "cispo");
  EXPECT_DOUBLE_EQ(cispo.rl().epsilon_high(), 5);
  const Config sapo = ConfigOf(TranslatedCommand(line + "actor_rollout_ref.actor.policy_loss.loss_mode=sapo "
                                                        "+actor_rollout_ref.actor.policy_loss.tau_neg=1.1"));
  EXPECT_DOUBLE_EQ(sapo.rl().sapo_temperature_neg(), 1.1);
}

TEST(TranslateVerl, TheSmallestRateIsARatio) {
  const Config config =
      ConfigOf(TranslatedCommand(std::string(kVerl) +
                                 "actor_rollout_ref.actor.optim.lr=1e-5 actor_rollout_ref.actor.optim.min_lr_ratio=0.1 "
                                 "actor_rollout_ref.actor.optim.lr_scheduler_type=cosine "
                                 "actor_rollout_ref.actor.optim.betas='[0.8,0.9]'"));
  EXPECT_DOUBLE_EQ(config.optimizer().min_lr(), 1e-6);
  EXPECT_DOUBLE_EQ(config.optimizer().beta1(), 0.8);
  EXPECT_DOUBLE_EQ(config.optimizer().beta2(), 0.9);
}

TEST(TranslateVerl, LayoutsOfVeOmni) {
  const Config config =
      ConfigOf(TranslatedCommand(std::string(kVerl) +
                                 "model_engine=veomni actor_rollout_ref.actor.veomni.ulysses_parallel_size=2 "
                                 "actor_rollout_ref.actor.veomni.expert_parallel_size=4"));
  EXPECT_EQ(config.parallel().context(), 2);
  EXPECT_EQ(config.parallel().context_method(), CONTEXT_ULYSSES);
  EXPECT_EQ(config.parallel().expert(), 4);
  EXPECT_EQ(config.parallel().zero(), 3);
}

TEST(TranslateVerl, LayoutsOfMegatronLite) {
  const std::string lite = std::string(kVerl) + "actor@actor_rollout_ref.actor=mlite_actor ";
  const std::string engine = "actor_rollout_ref.actor.engine.";
  const std::string sizes = lite + engine + "tp=2 " + engine + "cp=4 " + engine + "ep=8 " + engine + "vpp=1 ";
  const Config config = ConfigOf(TranslatedCommand(sizes + "+" + engine + "impl_cfg.optimizer=fsdp2 +" + engine +
                                                   "impl_cfg.recompute=[full] " + engine + "grad_offload=True"));
  EXPECT_EQ(config.parallel().tensor(), 2);
  EXPECT_EQ(config.parallel().context(), 4);
  EXPECT_EQ(config.parallel().expert(), 8);
  EXPECT_EQ(config.parallel().zero(), 3);
  EXPECT_EQ(config.memory().recompute(), RECOMPUTE_FULL);
  const Translation some =
      TranslatedCommand(sizes + "+" + engine + "impl_cfg.recompute=[mlp] +" + engine + "impl_cfg.optimizer=dist_opt");
  EXPECT_EQ(ConfigOf(some).memory().recompute(), RECOMPUTE_SELECTIVE);
  EXPECT_EQ(ConfigOf(some).parallel().zero(), 1);
  EXPECT_NE(AllOf(some.warnings()).find("impl_cfg.recompute=[mlp]"), std::string::npos);
}

const char* const kDistils =
    "distillation.enabled=True distillation.teacher_models.teacher_model.model_path=org/teacher "
    "distillation.distillation_loss.use_task_rewards=False actor_rollout_ref.rollout.n=1 ";

TEST(TranslateVerl, DistillationIsStageGkd) {
  const std::string loss = "distillation.distillation_loss.";
  const Translation result =
      TranslatedCommand(std::string(kVerl) + kDistils + loss + "loss_mode=k1 " + loss + "use_policy_gradient=True " +
                        loss + "loss_max_clamp=10.0 actor_rollout_ref.rollout.temperature=0.8");
  const Config config = ConfigOf(result);
  EXPECT_EQ(config.stage(), STAGE_GKD);
  EXPECT_EQ(config.distillation().teacher(), "org/teacher");
  EXPECT_DOUBLE_EQ(config.distillation().beta(), 1);
  EXPECT_DOUBLE_EQ(config.distillation().lambda(), 1);
  EXPECT_DOUBLE_EQ(config.distillation().temperature(), 0.8);
  EXPECT_DOUBLE_EQ(config.rl().temperature(), 0.8);
  EXPECT_EQ(config.run().global_batch(), 32);
  for (const char* word : {"loss_mode k1", "loss_max_clamp=10.0", "data.train_batch_size"}) {
    EXPECT_NE(AllOf(result.warnings()).find(word), std::string::npos) << word;
  }
  const Config forward =
      ConfigOf(TranslatedCommand(std::string(kVerl) + kDistils + loss + "loss_mode=forward_kl_topk"));
  EXPECT_DOUBLE_EQ(forward.distillation().beta(), 0);
  EXPECT_EQ(forward.rl().rewards_size(), 0) << "rewards are of evaluations, and there are none";
  const std::string evaluated = " data.val_files=/d/a.parquet trainer.test_freq=5";
  EXPECT_EQ(ConfigOf(TranslatedCommand(std::string(kVerl) + kDistils + loss + "loss_mode=forward_kl_topk" + evaluated))
                .rl()
                .rewards(0),
            "accuracy");
}

TEST(TranslateVerl, OtherDistillationIsRefused) {
  const auto refused = [](const std::string& more) {
    return AllOf(TranslatedCommand(std::string(kVerl) + kDistils + more).refused());
  };
  const std::string loss = "distillation.distillation_loss.",
                    k1 = loss + "loss_mode=k1 " + loss + "use_policy_gradient=";
  EXPECT_NE(refused("").find("loss_mode k3"), std::string::npos);
  EXPECT_NE(refused(k1 + "False").find("loss_mode k1 without"), std::string::npos);
  EXPECT_NE(refused(k1 + "True " + loss + "use_task_rewards=True").find("distillation with rewards"),
            std::string::npos);
  EXPECT_NE(refused(k1 + "True actor_rollout_ref.rollout.n=4").find("one answer"), std::string::npos);
  EXPECT_NE(refused(k1 + "True actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean").find("loss_agg_mode"),
            std::string::npos);
  const std::string another = "+distillation.teacher_models.a.model_path=org/a ";
  EXPECT_EQ(refused(k1 + "True " + another), "") << "teacher_model counts only where it is alone";
  EXPECT_NE(refused(k1 + "True " + another + "+distillation.teacher_models.b.model_path=org/b").find("2 teachers"),
            std::string::npos);
}

TEST(TranslateVerlSft, DefaultsAreTheTrainersOwn) {
  const std::string line =
      "torchrun --nproc_per_node=4 -m verl.trainer.sft_trainer data.train_files=/d/train.parquet "
      "data.val_files=/d/test.parquet model.path=org/m engine=fsdp ";
  const Config config =
      ConfigOf(TranslatedCommand(line + "trainer.test_freq=after_each_epoch data.messages_key=turns"));
  EXPECT_EQ(config.stage(), STAGE_SFT);
  EXPECT_EQ(config.tuning().kind(), TUNING_FULL);
  EXPECT_EQ(config.run().global_batch(), 256);
  EXPECT_DOUBLE_EQ(config.optimizer().lr(), 1e-3);
  EXPECT_EQ(config.optimizer().schedule(), LR_CONSTANT);
  EXPECT_DOUBLE_EQ(config.run().epochs(), 4);
  EXPECT_EQ(config.data().max_length(), 1024);
  EXPECT_EQ(config.parallel().zero(), 3);
  EXPECT_TRUE(config.eval().every_epoch());
  EXPECT_EQ(config.data().columns(0), "turns=messages");
  EXPECT_FALSE(config.data().packing());
  const Config megatron =
      ConfigOf(TranslatedCommand(
          line + "engine=megatron engine.tensor_model_parallel_size=2 model.lora_rank=16 data.truncation=right "
                 "data.use_dynamic_bsz=False data.micro_batch_size_per_gpu=2 data.train_max_samples=50"));
  EXPECT_EQ(megatron.parallel().tensor(), 2);
  EXPECT_EQ(megatron.parallel().zero(), 1);
  EXPECT_EQ(megatron.tuning().rank(), 16);
  EXPECT_DOUBLE_EQ(megatron.tuning().alpha(), 32);
  EXPECT_EQ(megatron.data().over_length(), OVER_LENGTH_TRUNCATE);
  EXPECT_EQ(megatron.run().micro_batch(), 2);
  EXPECT_EQ(megatron.data().train(0), "/d/train.parquet#50");
}

TEST(TranslateVerlSft, WhatIsMissingIsNamed) {
  const std::string refused =
      AllOf(TranslatedCommand("python -m verl.trainer.sft_trainer data.train_files=d model.path=m data.truncation=left "
                              "data.custom_cls.path=x.py engine=torchtitan optim.lr_decay_steps=5")
                .refused());
  for (const char* word :
       {"data.truncation=left", "data.custom_cls.path=x.py", "engine=torchtitan", "lr_decay_steps=5"}) {
    EXPECT_NE(refused.find(word), std::string::npos) << word << "\n" << refused;
  }
}

TEST(TranslateTrl, DefaultsAreTheTrainersOwn) {
  const Config sft = ConfigOf(
      TranslatedCommand("trl sft --model_name_or_path org/m --dataset_name org/d --gradient_accumulation_steps 2", 4));
  EXPECT_EQ(sft.run().global_batch(), 64);
  EXPECT_EQ(sft.data().loss(), LOSS_ALL);
  EXPECT_EQ(sft.tuning().kind(), TUNING_FULL);
  EXPECT_DOUBLE_EQ(sft.optimizer().lr(), 2e-5);
  EXPECT_EQ(sft.data().max_length(), 1024);
  EXPECT_EQ(ConfigOf(TranslatedCommand("trl sft --model_name_or_path m --dataset_name d --use_cpu true")).device(),
            DEVICE_CPU);
  const Config grpo = ConfigOf(TranslatedCommand(
      "trl grpo --model_name_or_path org/m --dataset_name d --reward_funcs accuracy_reward --steps_per_generation 4",
      2));
  EXPECT_EQ(grpo.rl().loss(), "dapo");
  EXPECT_DOUBLE_EQ(grpo.rl().beta(), 0);
  EXPECT_EQ(grpo.rl().steps_per_generation(), 4);
}

}  // namespace
}  // namespace trireme
