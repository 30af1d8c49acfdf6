// What a stage refuses before any work, and what its rules say of a run. Each case starts from a run that is accepted
// and changes what its name says. Losses of pairs: tests/parallel/objectives/pair_losses_test.cc.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/base/error.h"
#include "core/config/scalar.h"
#include "core/config/schema.h"
#include "stages/distillation_check.h"
#include "stages/other_models.h"
#include "stages/policy_check.h"
#include "stages/preference_check.h"
#include "stages/reference_sync_check.h"
#include "stages/sampler_check.h"
#include "stages/stage.h"

namespace trireme {
namespace {

std::string Refusal(const Config& config) {
  try {
    CheckStage(config);
    CheckReferenceSync(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "accepted";
}

// As `change` leaves a run of the stage that was accepted.
Config Changed(Stage stage, const std::function<void(Config&)>& change) {
  Config config = DefaultConfig();
  config.set_stage(stage);
  config.mutable_run()->set_global_batch(8);
  config.mutable_rl()->set_group(4);
  if (stage != STAGE_GKD) config.mutable_rl()->add_rewards("model:judge");  // of its evaluations alone
  config.mutable_distillation()->set_teacher("teacher");
  EXPECT_EQ(Refusal(config), "accepted");
  change(config);
  return config;
}

void ExpectRefused(Stage stage, const std::string& words, const std::function<void(Config&)>& change) {
  const std::string refusal = Refusal(Changed(stage, change));
  EXPECT_NE(refusal.find(words), std::string::npos) << "wanted: " << words << "\nfound: " << refusal;
}

void ExpectAccepted(Stage stage, const std::function<void(Config&)>& change) {
  EXPECT_EQ(Refusal(Changed(stage, change)), "accepted");
}

TEST(PreferenceChecks, LossesTakeTheNumbersTheyCanUse) {
  const auto robust = [](double smoothing) {
    return [=](Config& c) {
      c.mutable_preference()->add_loss("robust");
      c.mutable_preference()->set_label_smoothing(smoothing);
    };
  };
  ExpectRefused(STAGE_DPO, "robust divides by 1 - 2 x it; wanted below 0.5", robust(0.5));
  ExpectAccepted(STAGE_DPO, robust(0.49));
  ExpectRefused(STAGE_KTO, "takes one of kto, apo_zero_unpaired; it has 2", [](Config& c) {
    c.mutable_preference()->add_loss("kto");
    c.mutable_preference()->add_loss("apo_zero_unpaired");
  });
  ExpectRefused(STAGE_DPO, "split would part answers from their prompts",
                [](Config& c) { c.mutable_data()->set_over_length(OVER_LENGTH_SPLIT); });
}

TEST(PreferenceChecks, AReferenceIsNamedOnce) {
  ExpectRefused(STAGE_DPO, "preference.reference_free: true, and reference: some/model", [](Config& c) {
    c.mutable_preference()->set_reference_free(true);
    c.set_reference("some/model");
  });
  ExpectRefused(STAGE_KTO, "stage kto needs a reference",
                [](Config& c) { c.mutable_preference()->set_reference_free(true); });
  for (const Stage stage : {STAGE_DPO, STAGE_GRPO}) {
    const auto start = [](TuningKind kind) {
      return [=](Config& c) {
        c.set_reference("start");
        c.mutable_rl()->set_beta(0.1);
        c.mutable_tuning()->set_kind(kind);
      };
    };
    ExpectRefused(stage, "reference: start is for tuning.kind: lora", start(TUNING_FULL));
    ExpectAccepted(stage, start(TUNING_LORA));
  }
}

TEST(PreferenceChecks, ARunWithoutASecondModelMovesNone) {
  ExpectRefused(STAGE_DPO, "memory.offload_reference: true: this run has no second model", [](Config& c) {
    c.mutable_tuning()->set_kind(TUNING_LORA);
    c.mutable_memory()->set_offload_reference(true);
  });
  ExpectRefused(STAGE_GRPO, "memory.shard_reference: true: this run has no second model", [](Config& c) {
    c.mutable_rl()->set_beta(0);
    c.mutable_memory()->set_shard_reference(true);
  });
  ExpectRefused(STAGE_DPO, "precompute_ref_log_probs: true: this run has no reference", [](Config& c) {
    c.set_reference("none");
    c.mutable_preference()->set_precompute_ref_log_probs(true);
  });
}

TEST(PreferenceChecks, WhoHasAReference) {
  const auto wants = [](Stage stage, const std::string& reference, double beta = 0.1) {
    return WantsReference(Changed(stage, [&](Config& c) {
      c.set_reference(reference);
      c.mutable_rl()->set_beta(beta);
    }));
  };
  EXPECT_TRUE(wants(STAGE_DPO, "base"));
  EXPECT_FALSE(wants(STAGE_DPO, "none"));
  EXPECT_FALSE(wants(STAGE_ORPO, "base"));
  EXPECT_TRUE(wants(STAGE_GRPO, "base"));
  EXPECT_FALSE(wants(STAGE_GRPO, "base", 0));
  EXPECT_TRUE(wants(STAGE_GKD, "base", 0));
  const auto second = [](Stage stage, TuningKind kind, const std::string& reference) {
    return NeedsSecondModel(Changed(stage, [&](Config& c) {
      c.mutable_tuning()->set_kind(kind);
      c.set_reference(reference);
    }));
  };
  EXPECT_TRUE(second(STAGE_DPO, TUNING_FULL, "base"));
  EXPECT_FALSE(second(STAGE_DPO, TUNING_LORA, "base"));
  EXPECT_TRUE(second(STAGE_DPO, TUNING_LORA, "some/model"));
  EXPECT_TRUE(second(STAGE_GKD, TUNING_LORA, "base"));  // its teacher
}

TEST(PreferenceChecks, LossesThatNeedMoreThanPairs) {
  const auto with = [](Stage stage, const std::string& loss) {
    return Changed(stage, [&](Config& c) {
      c.mutable_preference()->add_loss(loss);
      c.mutable_preference()->set_ld_alpha(0.5);
      c.mutable_preference()->set_orpo_prompt_nll(true);
    });
  };
  EXPECT_TRUE(EstimatesKl(with(STAGE_KTO, "kto")));
  EXPECT_FALSE(EstimatesKl(with(STAGE_KTO, "apo_zero_unpaired")));
  EXPECT_TRUE(EstimatesKl(Changed(STAGE_KTO, [](Config&) {})));
  EXPECT_FALSE(SortsAnswers(with(STAGE_DPO, "hinge")));
  EXPECT_TRUE(SortsAnswers(with(STAGE_DPO, "aot")));
  EXPECT_EQ(LongerAnswerWeight(with(STAGE_DPO, "sigmoid")), 0.5);
  EXPECT_EQ(LongerAnswerWeight(with(STAGE_KTO, "kto")), 1);
  const auto prompts_count = [](Stage stage) {
    return LearnsPrompt(Changed(stage, [](Config& c) { c.mutable_preference()->set_orpo_prompt_nll(true); }));
  };
  EXPECT_TRUE(prompts_count(STAGE_ORPO));
  EXPECT_FALSE(prompts_count(STAGE_CPO));
}

TEST(PreferenceChecks, AReferenceThatMovesIsNotKept) {
  const auto moving = [](const std::function<void(Config&)>& change) {
    return [=](Config& c) {
      c.mutable_reference_sync()->set_steps(4);
      c.mutable_tuning()->set_kind(TUNING_FULL);
      change(c);
    };
  };
  ExpectAccepted(STAGE_DPO, moving([](Config&) {}));
  ExpectRefused(STAGE_DPO, "compares with no reference", moving([](Config& c) { c.set_reference("none"); }));
  ExpectRefused(STAGE_DPO, "of a reference that stays",
                moving([](Config& c) { c.mutable_preference()->set_precompute_ref_log_probs(true); }));
  ExpectRefused(STAGE_DPO, "memory.offload_reference keeps weights",
                moving([](Config& c) { c.mutable_memory()->set_offload_reference(true); }));
}

TEST(PolicyChecks, NumbersOfTheLoss) {
  ExpectRefused(STAGE_GRPO, "rl.loss: gpro is not known", [](Config& c) { c.mutable_rl()->set_loss("gpro"); });
  ExpectRefused(STAGE_GRPO, "wanted above 1 + rl.epsilon_high", [](Config& c) {
    c.mutable_rl()->set_epsilon_high(0.25);
    c.mutable_rl()->set_delta(1.25);
  });
  ExpectAccepted(STAGE_GRPO, [](Config& c) {
    c.mutable_rl()->set_epsilon_high(0.25);
    c.mutable_rl()->set_delta(1.5);
  });
  ExpectRefused(STAGE_GRPO, "leaves some out; leave one of them out", [](Config& c) {
    c.mutable_rl()->set_entropy_coef(0.1);
    c.mutable_rl()->set_top_entropy_quantile(0.5);
  });
  ExpectRefused(STAGE_GRPO, "completions are drawn, not the likeliest",
                [](Config& c) { c.mutable_rl()->set_temperature(0); });
  ExpectRefused(STAGE_GRPO, "is above rl.sampler_clip_max", [](Config& c) {
    c.mutable_rl()->set_sampler_clip_min(3);
    c.mutable_rl()->set_sampler_clip_max(2);
  });
}

TEST(PolicyChecks, SizesDivideEachOther) {
  const auto group = [](int size) { return [=](Config& c) { c.mutable_rl()->set_group(size); }; };
  ExpectRefused(STAGE_GRPO, "a completion is compared with the others", group(1));
  ExpectAccepted(STAGE_PPO, group(1));
  ExpectRefused(STAGE_GRPO, "is not a multiple of rl.group = 3; write 6", group(3));
  const auto every = [](int steps) {
    return [=](Config& c) {
      c.mutable_rl()->set_steps_per_generation(2);
      c.mutable_rl()->set_iterations(2);
      c.mutable_run()->set_steps(8);
      c.mutable_save()->set_every(steps);
    };
  };
  ExpectRefused(STAGE_GRPO, "parts the steps that share completions; wanted a multiple of", every(6));
  ExpectAccepted(STAGE_GRPO, every(4));
  ExpectRefused(STAGE_GRPO, "rl.reward_weights has 2 numbers for 1 names", [](Config& c) {
    c.mutable_rl()->add_reward_weights(1);
    c.mutable_rl()->add_reward_weights(2);
  });
  const Config shared = Changed(STAGE_GRPO, every(4));
  EXPECT_EQ(StepsPerSampling(shared.rl()), 4);
  EXPECT_EQ(PromptsPerSampling(shared), 4);  // 8 completions of each of 2 steps, 4 a prompt
}

TEST(PolicyChecks, AReferenceIsOneThatCounts) {
  const auto compared = [](const std::string& reference, double beta) {
    return [=](Config& c) {
      c.set_reference(reference);
      c.mutable_rl()->set_beta(beta);
    };
  };
  ExpectRefused(STAGE_GRPO, "needs a reference, and reference: none", compared("none", 0.1));
  ExpectRefused(STAGE_GRPO, "nothing is compared with it", compared("some/model", 0));
  ExpectAccepted(STAGE_GRPO, compared("none", 0));
  ExpectAccepted(STAGE_GRPO, compared("some/model", 0.1));
}

TEST(PolicyChecks, WhichLogProbabilitiesAStepNeeds) {
  const auto needs = [](Stage stage, double beta, int iterations) {
    return NeedsOldLogProbs(Changed(stage, [&](Config& c) {
      c.mutable_rl()->set_beta(beta);
      c.mutable_rl()->set_iterations(iterations);
    }));
  };
  EXPECT_FALSE(needs(STAGE_GRPO, 0.1, 1));  // its divergence is a part of the loss
  EXPECT_TRUE(needs(STAGE_GRPO, 0, 2));
  EXPECT_TRUE(needs(STAGE_RLOO, 0.1, 1));  // and there of the reward
  EXPECT_FALSE(needs(STAGE_RLOO, 0, 1));
  EXPECT_TRUE(needs(STAGE_PPO, 0, 1));
  EXPECT_FALSE(needs(STAGE_GKD, 0.1, 2));
  EXPECT_TRUE(HasKlLoss(Changed(STAGE_GRPO, [](Config& c) { c.mutable_rl()->set_beta(0.1); })));
  EXPECT_FALSE(HasKlLoss(Changed(STAGE_RLOO, [](Config& c) { c.mutable_rl()->set_beta(0.1); })));
  EXPECT_EQ(GroupOf(Changed(STAGE_GKD, [](Config&) {})), 1);
  EXPECT_EQ(RewardModelIn("model:a/b"), "a/b");
  EXPECT_EQ(RewardModelIn("length"), std::nullopt);
}

TEST(PolicyChecks, CompletionsComeFromOnePlace) {
  const auto given = [](const std::function<void(Config&)>& change) {
    return [=](Config& c) {
      c.mutable_rl()->set_rollouts("rollouts.jsonl");
      change(c);
    };
  };
  ExpectAccepted(STAGE_GRPO, given([](Config&) {}));
  ExpectRefused(STAGE_GRPO, "rl.environment: the completions of rl.rollouts are given",
                given([](Config& c) { c.mutable_rl()->set_environment("program:a"); }));
  ExpectRefused(STAGE_GRPO, "rl.max_resample_times = 2: the completions",
                given([](Config& c) { c.mutable_rl()->set_max_resample_times(2); }));
  ExpectRefused(STAGE_GRPO, "data.train: rl.rollouts has the prompts",
                given([](Config& c) { c.mutable_data()->add_train("a.jsonl"); }));
}

TEST(SamplerChecks, AServerThatCannotFollowIsRefused) {
  const auto served = [](const std::function<void(Config&)>& change) {
    return [=](Config& c) {
      c.mutable_rl()->mutable_sampler()->set_endpoint("http://host:1/v1");
      change(c);
    };
  };
  ExpectAccepted(STAGE_GRPO, served([](Config&) {}));
  ExpectRefused(STAGE_GRPO, "are one turn", served([](Config& c) { c.mutable_rl()->set_environment("program:a"); }));
  const auto weights = [&](TuningKind kind, const std::string& reload) {
    return served([=](Config& c) {
      c.mutable_rl()->mutable_sampler()->set_weights("shared");
      c.mutable_rl()->mutable_sampler()->set_reload(reload);
      c.mutable_tuning()->set_kind(kind);
    });
  };
  ExpectRefused(STAGE_GRPO, "would not learn of new weights", weights(TUNING_FULL, ""));
  ExpectAccepted(STAGE_GRPO, weights(TUNING_LORA, ""));
  ExpectAccepted(STAGE_GRPO, weights(TUNING_FULL, "program:tell"));
  ExpectRefused(STAGE_GRPO, "wanted http://HOST:PORT/PATH or program:COMMAND", weights(TUNING_FULL, "program:"));
  ExpectRefused(STAGE_GRPO, "wanted http://HOST:PORT/PATH or program:COMMAND", weights(TUNING_FULL, "tell"));
  ExpectRefused(STAGE_GRPO, "rl.sampler.weights has no part in this run",
                [](Config& c) { c.mutable_rl()->mutable_sampler()->set_weights("shared"); });
  ExpectRefused(STAGE_GRPO, "rl.sampler.seconds has no part in this run",
                [](Config& c) { c.mutable_rl()->mutable_sampler()->set_seconds(5); });
}

TEST(SamplerChecks, CorrectionsCompareTheSameNumbers) {
  const auto corrected = [](SamplerLogProbs kind, double temperature, double top_p) {
    return [=](Config& c) {
      c.mutable_rl()->mutable_sampler()->set_endpoint("http://host:1/v1");
      c.mutable_rl()->mutable_sampler()->set_log_probs(kind);
      c.mutable_rl()->set_sampler_correction(CORRECTION_TOKEN_TRUNCATE);
      c.mutable_rl()->set_temperature(temperature);
      c.mutable_rl()->set_top_p(top_p);
    };
  };
  ExpectAccepted(STAGE_GRPO, corrected(SAMPLER_LOG_PROBS_RAW, 1, 1));
  ExpectRefused(STAGE_GRPO, "are at 1; let the server give processed ones", corrected(SAMPLER_LOG_PROBS_RAW, 0.7, 1));
  ExpectAccepted(STAGE_GRPO, corrected(SAMPLER_LOG_PROBS_PROCESSED, 0.7, 1));
  ExpectRefused(STAGE_GRPO, "are of the kept tokens", corrected(SAMPLER_LOG_PROBS_PROCESSED, 1, 0.9));
}

TEST(SamplerChecks, ASecondCopyHasAnotherLayout) {
  const auto sampled = [](int tensor, int context) {
    return [=](Config& c) {
      c.mutable_parallel()->set_tensor(2);
      c.mutable_parallel()->set_context(context);
      c.mutable_rl()->mutable_sampling()->set_tensor(tensor);
    };
  };
  ExpectRefused(STAGE_GRPO, "it is the layout of parallel", sampled(2, 1));
  ExpectAccepted(STAGE_GRPO, sampled(1, 1));
  ExpectAccepted(STAGE_GRPO, sampled(2, 2));  // nothing is sampled under context parallelism
  Config config = Changed(STAGE_GRPO, sampled(4, 1));
  config.mutable_parallel()->set_zero(3);
  config.mutable_parallel()->set_pipeline(2);
  config.mutable_parallel()->set_sequence(false);  // not what is there by itself
  const OtherModel sampler = OtherModelOf(config, ModelRole::kSampler).value();
  const ParallelConfig other = ConfigOf(config, sampler).parallel();
  EXPECT_EQ(other.tensor(), 4);
  EXPECT_EQ(other.pipeline(), 1);
  EXPECT_EQ(other.zero(), 0);
  EXPECT_FALSE(other.sequence());
  EXPECT_EQ(ConfigOf(config, sampler).model().path(), config.model().path());
  config.mutable_rl()->clear_sampling();
  EXPECT_FALSE(OtherModelOf(config, ModelRole::kSampler));
}

TEST(DistillationChecks, ATeacherAndItsNumbers) {
  ExpectRefused(STAGE_GKD, "distillation.teacher is empty",
                [](Config& c) { c.mutable_distillation()->clear_teacher(); });
  ExpectRefused(STAGE_GKD, "distillation.temperature = 0; wanted above 0",
                [](Config& c) { c.mutable_distillation()->set_temperature(0); });
  ExpectRefused(STAGE_GKD, "answers are drawn", [](Config& c) { c.mutable_rl()->set_temperature(0); });
  ExpectRefused(STAGE_GKD, "trains the last answer", [](Config& c) { c.mutable_data()->set_loss(LOSS_ALL); });
  const auto context = [](double lambda) {
    return [=](Config& c) {
      c.mutable_parallel()->set_context(2);
      c.mutable_distillation()->set_lambda(lambda);
    };
  };
  ExpectRefused(STAGE_GKD, "no answers are sampled under context parallelism", context(0.5));
  ExpectAccepted(STAGE_GKD, context(0));
  ExpectRefused(STAGE_GKD, "the data has all answers", [](Config& c) {
    c.mutable_distillation()->set_lambda(0);
    c.mutable_rl()->set_offload_optimizer(true);
  });
}

TEST(DistillationChecks, ATeacherOfAnotherLayout) {
  const auto laid_out = [](int tensor) {
    return [=](Config& c) {
      c.mutable_parallel()->set_tensor(2);
      c.mutable_distillation()->mutable_layout()->set_tensor(tensor);
      c.mutable_memory()->set_shard_reference(true);
    };
  };
  ExpectRefused(STAGE_GKD, "distillation.layout has no part in this run", laid_out(2));
  Config config = Changed(STAGE_GKD, laid_out(4));
  EXPECT_EQ(Refusal(config), "accepted");
  config.mutable_model()->set_path("student");
  config.mutable_tuning()->set_kind(TUNING_LORA);
  const Config teacher = ConfigOf(config, OtherModelOf(config, ModelRole::kTeacher).value());
  EXPECT_EQ(teacher.model().path(), "teacher");
  EXPECT_EQ(teacher.parallel().zero(), 3);
  EXPECT_EQ(teacher.tuning().kind(), TUNING_FULL);
  EXPECT_FALSE(OtherModelOf(config, ModelRole::kReference));  // its teacher is that
  config.set_stage(STAGE_DPO);
  config.set_reference("base");
  EXPECT_FALSE(OtherModelOf(config, ModelRole::kTeacher));
  EXPECT_FALSE(OtherModelOf(config, ModelRole::kReference));  // it is the policy without its adapter
  EXPECT_TRUE(ComparesWithItself(config));
}

}  // namespace
}  // namespace trireme
