// The passes that methods are made of, each on its own: a preference step, a sampling's updates, the frozen reference.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "core/config/load.h"
#include "data/answer_rows.h"
#include "tests/core/comm/spmd.h"
#include "tests/session/model_folder.h"
#include "train/methods/policy/policy.h"
#include "train/methods/preference/preference.h"

namespace trireme {
namespace {

const char* const kModel = R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 32,
  "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
  "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 32, "rms_norm_eps": 1e-6,
  "rope_theta": 10000.0, "tie_word_embeddings": false, "hidden_act": "silu", "attention_bias": false,
  "initializer_range": 0.3})";

const char* const kPairs = R"({"prompt_ids": [1, 2, 3], "chosen_ids": [4, 5], "rejected_ids": [6, 7, 8]}
{"prompt_ids": [9, 2], "chosen_ids": [10, 11, 12], "rejected_ids": [13]}
{"prompt_ids": [14, 15, 3, 2], "chosen_ids": [16], "rejected_ids": [17, 18]}
{"prompt_ids": [19], "chosen_ids": [20, 21, 22, 23], "rejected_ids": [24, 25]}
)";

class PassesTest : public testing::Test {
 protected:
  Config ConfigWith(const std::vector<std::string>& settings) const {
    std::vector<std::string> all = {"model.path=" + folder_.model(),
                                    "model.init=random",
                                    "model.dtype=fp32",
                                    "device=cpu",
                                    "run.global_batch=4",
                                    "run.micro_batch=1",
                                    "run.seed=5",
                                    "tuning.kind=full",
                                    "data.cache=" + (folder_.output() / "cache").string(),
                                    "data.max_length=16"};
    all.insert(all.end(), settings.begin(), settings.end());
    return ParseConfig("", "test", all);
  }

  std::vector<Row> Pairs(const Config& config) const {
    const std::string path = (folder_.output() / "pairs.jsonl").string();
    std::ofstream(path) << kPairs;
    return ReadAnswerRows(path, 32, config);
  }

  const ModelFolder folder_{kModel};
};

void Update(Trainer& trainer) {
  trainer.FinishGradients();
  trainer.optimizer().Update(0.01);
}

// A session with its weights, what trains it, and the pass of its stage.
struct OpenPass {
  explicit OpenPass(const Config& config) : session(Session::Open(config, TestJob())) { session->TakeWeights(); }

  const std::unique_ptr<Session> session;
  Trainer trainer{*session};
  PreferencePass pass{trainer};
};

// The losses of three steps over the same pairs, and the last margin.
std::vector<double> PreferenceSteps(const Config& config, const std::vector<Row>& rows) {
  OpenPass open(config);
  auto& [session, trainer, pass] = open;
  const RowList list(rows);
  const std::vector<int64_t> all = AllRows(list);
  pass.Precompute(list, {.rows = list.size(), .batch = list.size(), .shuffle = false}, /*steps=*/3, &list);
  std::vector<double> found;
  for (int step = 1; step <= 3; ++step) {
    found.push_back(pass.Pass(list, all, step));
    if (step < 3) Update(trainer);
  }
  found.push_back(pass.metrics().at("rewards/margins"));
  const Evaluation evaluation = pass.Evaluate(list);
  EXPECT_NEAR(evaluation.loss.value(), found[2], 1e-5) << "the weights of the last step, without an update";
  EXPECT_NEAR(evaluation.metrics.at("rewards/margins"), found[3], 1e-5);
  return found;
}

TEST_F(PassesTest, APreferenceStepComparesWithWhereItBegan) {
  const Config config = ConfigWith({"stage=dpo"});
  const std::vector<Row> rows = Pairs(config);
  const std::vector<double> found = PreferenceSteps(config, rows);
  EXPECT_NEAR(found[0], std::log(2), 1e-6) << "policy and reference are the same";
  EXPECT_LT(found[1], found[0]);
  EXPECT_LT(found[2], found[1]);
  EXPECT_GT(found[3], 0) << "the margin";
  for (const std::string other : {"run.micro_batch=2", "preference.precompute_ref_log_probs=true",
                                  "preference.share_prompt=false", "memory.offload_reference=true"}) {
    const Config changed = ConfigWith({"stage=dpo", other});
    const std::vector<double> same = PreferenceSteps(changed, Pairs(changed));
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(same[i], found[i], 1e-5) << other << ", number " << i;
  }
}

TEST_F(PassesTest, AnObjectivesStateIsMovedByTheBatchesThatItTrains) {
  const Config config = ConfigWith({"stage=bco"});
  const std::vector<Row> rows = Pairs(config);
  OpenPass open(config);
  auto& [session, trainer, pass] = open;
  const RowList list(rows);
  const std::vector<int64_t> all = AllRows(list);
  EXPECT_NEAR(pass.Pass(list, all, 1), std::log(2), 1e-6) << "policy and reference are the same";
  ASSERT_EQ(pass.state().size(), 2u) << "bco's: the mean reward, and of how many answers";
  EXPECT_NEAR(pass.state()[0], 0, 1e-6);
  EXPECT_EQ(pass.state()[1], 8) << "both of each pair";
  Update(trainer);
  pass.Pass(list, all, 2);
  const MetricValues& metrics = pass.metrics();
  const double reward = (metrics.at("rewards/chosen") + metrics.at("rewards/rejected")) / 2;
  EXPECT_GT(std::abs(reward), 1e-3);
  EXPECT_NEAR(pass.state()[0], reward / 2, 1e-5) << "over the answers of both steps";
  EXPECT_NEAR(metrics.at("delta"), pass.state()[0], 1e-6) << "the mean with which the batch was trained";
  EXPECT_EQ(metrics.count("kl"), 0u);
  const std::vector<double> before = pass.state();
  EXPECT_NEAR(pass.Evaluate(list).metrics.at("delta"), before[0], 1e-6);
  EXPECT_EQ(pass.state(), before) << "evaluations move nothing";
  const std::vector<double> seen = {0.5, 24};
  EXPECT_EQ(trainer.objective().NextState(seen, HUGE_VAL, 4), seen) << "a batch that overflows is none of the mean";
  EXPECT_EQ(trainer.objective().NextState(seen, 0, 8), (std::vector<double>{0.375, 32}));
  Update(trainer);
  pass.Restore(seen);
  pass.Pass(list, all, 3);
  EXPECT_EQ(pass.state()[1], 32) << "it goes on from what was restored";
}

// Its rows are the answers of pairs, half of them good.
TEST_F(PassesTest, AJudgedAnswerWeighsByItsKind) {
  const Config config = ConfigWith({"stage=kto", "preference.desirable_weight=2", "preference.undesirable_weight=0.5"});
  const std::vector<Row> rows = Pairs(config);
  OpenPass open(config);
  auto& [session, trainer, pass] = open;
  const RowList list(rows);
  const std::vector<int64_t> all = AllRows(list);
  EXPECT_NEAR(pass.Pass(list, all, 1), (2 * 0.5 + 0.5 * 0.5) / 2, 1e-6) << "policy and reference are the same";
  double largest = 0;
  for (int step = 2; step < 5; ++step) {
    Update(trainer);
    pass.Pass(list, all, step);
    const MetricValues& metrics = pass.metrics();
    EXPECT_NEAR(metrics.at("rewards/margins"), metrics.at("rewards/chosen") - metrics.at("rewards/rejected"), 1e-5);
    EXPECT_GE(metrics.at("kl"), 0) << "step " << step;
    largest = std::max(largest, metrics.at("rewards/margins"));
  }
  EXPECT_GT(largest, 1e-3);
}

// Bad answers weigh so much that the policy loses its trust in all of them.
TEST_F(PassesTest, ADivergenceOfJudgedAnswersIsNeverBelowNothing) {
  const Config config = ConfigWith({"stage=kto", "preference.desirable_weight=0", "preference.undesirable_weight=4"});
  const std::vector<Row> rows = Pairs(config);
  OpenPass open(config);
  auto& [session, trainer, pass] = open;
  const std::vector<int64_t> all = AllRows(RowList(rows));
  double least = 1;
  for (int step = 1; step < 5; ++step) {
    pass.Pass(RowList(rows), all, step);
    if (step > 1) least = std::min(least, pass.metrics().at("kl"));
    Update(trainer);
  }
  EXPECT_EQ(least, 0) << "as other answers are less likely than to the reference";
}

TEST_F(PassesTest, TheLikelihoodInAListOfLossesHasItsWeight) {
  const Config config = ConfigWith({"stage=dpo", "preference.loss=[sigmoid, sft]", "preference.weights=[1, 0.5]"});
  const std::vector<Row> rows = Pairs(config);
  OpenPass open(config);
  auto& [session, trainer, pass] = open;
  const double loss = pass.Pass(RowList(rows), std::vector<int64_t>{0, 1, 2, 3}, 1);
  EXPECT_NEAR(loss, std::log(2) + 0.5 * pass.metrics().at("nll_loss"), 1e-5);
}

TEST_F(PassesTest, ARewardModelsScoresAndTheirExtremes) {
  const Config config = ConfigWith({"stage=rm", "run.micro_batch=2"});
  std::vector<Row> rows = Pairs(config);
  rows.insert(rows.end(), {rows[0], rows[1]});
  OpenPass open(config);
  auto& [session, trainer, pass] = open;
  const Evaluation all = pass.Evaluate(RowList(rows));
  const Evaluation first = pass.Evaluate(RowList({rows[0], rows[1], rows[2], rows[3]}));
  const Evaluation last = pass.Evaluate(RowList({rows[0], rows[1]}));
  EXPECT_NEAR(all.loss.value(), (4 * first.loss.value() + 2 * last.loss.value()) / 6, 1e-5)
      << "each sample counts alike, in the last, smaller batch, too";
  EXPECT_GT(std::abs(first.loss.value() - last.loss.value()), 1e-4);
  // Of one pair the extremes are its scores, and the margin is between them.
  for (const Row& row : rows) {
    const MetricValues one = pass.Evaluate(RowList({row})).metrics;
    EXPECT_NEAR(one.at("max_reward") - one.at("min_reward"), std::abs(one.at("margin")), 1e-5);
    EXPECT_NEAR(one.at("max_reward") + one.at("min_reward"), 2 * one.at("mean_reward"), 1e-5);
  }
}

TEST_F(PassesTest, AReferenceStaysUntilItIsSynced) {
  const Config config = ConfigWith({"stage=dpo", "reference_sync.steps=2", "reference_sync.alpha=1"});
  const std::vector<Row> rows = Pairs(config);
  OpenPass open(config);
  auto& [session, trainer, pass] = open;
  Reference& reference = *pass.reference();
  ASSERT_NE(reference.saved(), nullptr) << "it follows the policy: checkpoints have it";
  const RowList list(rows);
  const std::vector<PassInput> inputs = MakePassInputs(rows, ShapeOf(*session));
  const auto policy = [&] { return AnswerLogProbsOf(*session, inputs)[0][0]; };
  const double begin = policy();
  EXPECT_NEAR(reference.LogProbsOf(inputs)[0][0], begin, 1e-6);
  pass.Pass(list, std::vector<int64_t>{0, 1, 2, 3}, 1);
  Update(trainer);
  reference.Sync(1);
  EXPECT_NEAR(reference.LogProbsOf(inputs)[0][0], begin, 1e-6) << "step 1 is none of every second";
  EXPECT_GT(std::abs(policy() - begin), 1e-3);
  reference.Sync(2);
  EXPECT_NEAR(reference.LogProbsOf(inputs)[0][0], policy(), 1e-6);
}

std::vector<Rollout> SomeRollouts() {
  return {{.group = 0, .prompt_ids = {1, 2, 3}, .completion_ids = {4, 5}, .rewards = {{"r", 1}}},
          {.group = 0, .prompt_ids = {1, 2, 3}, .completion_ids = {6, 7, 8, 9}, .rewards = {{"r", 3}}}};
}

TEST_F(PassesTest, ASamplingsAdvantagesAreOfItsGroup) {
  const Config config = ConfigWith(
      {"stage=grpo", "rl.group=2", "run.global_batch=2", "rl.scale_rewards=none", "rl.beta=0", "rl.loss=grpo"});
  const auto session = Session::Open(config, TestJob());
  Trainer trainer(*session);
  PolicyPass pass(trainer);
  session->TakeWeights();
  EXPECT_EQ(pass.reference(), nullptr) << "without a KL there is none";
  pass.Begin(SomeRollouts(), {"r"});
  EXPECT_NEAR(*pass.rollouts()[0].advantage, -1, 1e-9);
  EXPECT_NEAR(*pass.rollouts()[1].advantage, 1, 1e-9);
  EXPECT_NEAR(pass.Pass(0), 0, 1e-6) << "minus the mean of the completions' advantages, at ratios of 1";
  EXPECT_NEAR(pass.metrics().at("reward"), 2, 1e-9) << "with the first update of a sampling";
  trainer.FinishGradients();
  trainer.optimizer().SkipUpdate();

  std::vector<Rollout> given = SomeRollouts();
  given[0].advantage = 1;
  given[1].advantage = 0.5;
  pass.BeginGiven(given);
  EXPECT_NEAR(pass.Pass(0), -0.75, 1e-6);
  EXPECT_EQ(pass.metrics().count("reward"), 0u) << "advantages that are given have no rewards";
  trainer.FinishGradients();
  trainer.optimizer().SkipUpdate();

  for (Rollout& one : given)
    one.log_probs.assign(one.completion_ids.size(), 0);  // certain: ratios are below 1 - epsilon
  pass.BeginGiven(given);
  EXPECT_GT(pass.Pass(0), -0.74) << "gains of unlikelier tokens count less";
}

TEST_F(PassesTest, APolicyIsHeldNearItsReference) {
  const Config config =
      ConfigWith({"stage=grpo", "rl.group=2", "run.global_batch=2", "rl.beta=0.5", "rl.scale_rewards=none"});
  const auto session = Session::Open(config, TestJob());
  Trainer trainer(*session);
  PolicyPass pass(trainer);
  session->TakeWeights();
  pass.Begin(SomeRollouts(), {"r"});
  pass.Pass(0);
  EXPECT_NEAR(pass.metrics().at("kl"), 0, 1e-6) << "they are the same";
  Update(trainer);
  pass.Begin(SomeRollouts(), {"r"});
  pass.Pass(0);
  EXPECT_GT(pass.metrics().at("kl"), 1e-5);
}

TEST_F(PassesTest, AScoreOfPpoLosesWhatACutOffCompletionCosts) {
  const Config config = ConfigWith({"stage=ppo", "rl.group=2", "run.global_batch=2", "rl.beta=0.1",
                                    "rl.value_model=policy", "rl.missing_eos_penalty=0.5"});
  const auto session = Session::Open(config, TestJob());
  Trainer trainer(*session);
  PolicyPass pass(trainer);
  session->TakeWeights();
  std::vector<Rollout> rollouts = SomeRollouts();
  rollouts[1].truncated = true;
  pass.Begin(rollouts, {"r"});
  pass.Pass(0);
  EXPECT_NEAR(pass.metrics().at("objective/scores"), (1 + (3 - 0.5)) / 2, 1e-6);
  EXPECT_NEAR(pass.metrics().at("objective/kl"), 0, 1e-6);
  EXPECT_NEAR(pass.rollouts()[0].tokens.rewards.back(), 1, 1e-6) << "the score is the last token's";
  EXPECT_NEAR(pass.rollouts()[1].tokens.rewards.back(), 2.5, 1e-6);
}

TEST_F(PassesTest, ATeacherTakesThePlaceOfRewards) {
  const Config config = ConfigWith({"stage=grpo", "rl.group=2", "run.global_batch=2", "rl.beta=0.1"});
  const auto session = Session::Open(config, TestJob());
  Trainer trainer(*session);
  PolicyPass pass(trainer);
  session->TakeWeights();
  int asked = 0;
  pass.FollowTeacher([&](const RowSource& rows, std::vector<PassInput>& inputs) {
    ++asked;
    EXPECT_GT(rows.size(), 0);
    EXPECT_FALSE(inputs.empty());
  });
  pass.Begin(SomeRollouts(), {"r"});
  EXPECT_EQ(asked, 1) << "once for each update";
  EXPECT_FALSE(pass.rollouts()[0].advantage.has_value()) << "rewards have no part in it";
}

}  // namespace
}  // namespace trireme
