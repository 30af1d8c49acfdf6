// What a step's numbers must not depend on: the layout, and how rows are put into batches; and what must change
// from one update to the next. On two ranks, with a model that has experts and predicts several tokens.
#include "train/step/trainer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/config/load.h"
#include "data/rows.h"
#include "tests/core/comm/spmd.h"
#include "tests/session/model_folder.h"
#include "train/evaluation/evaluator.h"

namespace trireme {
namespace {

constexpr int64_t kVocabulary = 96;

const char* const kModel = R"({"model_type": "deepseek_v3", "vocab_size": 96, "hidden_size": 32,
  "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
  "kv_lora_rank": 8, "q_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
  "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 1, "moe_intermediate_size": 16,
  "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "num_nextn_predict_layers": 1,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": false, "initializer_range": 0.3})";

Config ConfigWith(const ModelFolder& folder, const std::vector<std::string>& settings) {
  std::vector<std::string> all = {"model.path=" + folder.model(),
                                  "model.init=random",
                                  "model.dtype=fp32",
                                  "device=cpu",
                                  "run.micro_batch=1",
                                  "run.seed=7",
                                  "tuning.kind=full"};
  all.insert(all.end(), settings.begin(), settings.end());
  return ParseConfig("", "test", all);
}

// Six rows of different length.
std::vector<Row> SomeRows() {
  std::vector<Row> rows(6);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (int64_t i = 0; i < 6 + 2 * static_cast<int64_t>(r); ++i)
      rows[r].input_ids.push_back((static_cast<int64_t>(r) * 7 + i * i) % kVocabulary);
    rows[r].labels = rows[r].input_ids;
  }
  return rows;
}

struct Step {
  double loss = 0, mtp_loss = 0, norm = 0;
};

Step StepUnder(const ModelFolder& folder, std::vector<std::string> settings, const std::string& layout) {
  settings.push_back(layout);
  const auto session = Session::Open(ConfigWith(folder, settings), TestJob());
  session->TakeWeights();
  Trainer trainer(*session);
  const double loss = trainer.Pass(SomeRows());
  const std::vector<double> mtp = trainer.mtp_losses();
  return {loss, mtp.empty() ? 0 : mtp[0], trainer.FinishGradients().norm};
}

// Stages have the micro batches of one rank: what ranks exchange within a micro batch, they do not exchange.
void ExpectTheSame(const std::vector<std::string>& settings, const std::vector<std::string>& layouts) {
  const ModelFolder folder(kModel);
  const Step wanted = StepUnder(folder, settings, "parallel.pipeline=2");
  EXPECT_GT(wanted.loss, 1);
  EXPECT_GT(wanted.norm, 0.01);
  for (const std::string& layout : layouts) {
    const Step found = StepUnder(folder, settings, layout);
    EXPECT_NEAR(found.loss, wanted.loss, 1e-4 * wanted.loss) << layout;
    EXPECT_NEAR(found.mtp_loss, wanted.mtp_loss, 1e-4 * wanted.mtp_loss) << layout;
    EXPECT_NEAR(found.norm, wanted.norm, 1e-3 * wanted.norm) << layout;
  }
}

TEST(Trainer, LossesDoNotDependOnTheLayout) {
  ExpectTheSame({"multi_token_prediction.depths=1"}, {"parallel.tensor=1", "parallel.tensor=2", "parallel.context=2"});
}

// Rows of different length in a micro batch are padded; padding has no losses.
TEST(Trainer, RouterLossesDoNotDependOnTheLayout) {
  ExpectTheSame({"experts.balance_coefficient=0.5", "experts.z_coefficient=0.1"},
                {"parallel.tensor=1", "parallel.tensor=2", "parallel.context=2", "run.micro_batch=3"});
}

TEST(Trainer, DroppedTokensDoNotDependOnTheLayout) {
  ExpectTheSame({"experts.overflow=drop", "experts.capacity=0.6", "run.micro_batch=3"},
                {"parallel.tensor=2", "parallel.context=2"});
}

// The mask is an update's, not a pass's: a step that was skipped repeats it.
TEST(Trainer, DropoutChangesWithEachUpdate) {
  const ModelFolder folder(kModel);
  const auto session = Session::Open(ConfigWith(folder, {"tuning.hidden_dropout=0.5"}), TestJob());
  session->TakeWeights();
  Trainer trainer(*session);
  const double first = trainer.Pass(SomeRows());
  trainer.FinishGradients();
  trainer.optimizer().SkipUpdate();
  EXPECT_EQ(trainer.Pass(SomeRows()), first);
  trainer.FinishGradients();
  trainer.optimizer().Update(/*lr=*/0);
  EXPECT_NE(trainer.Pass(SomeRows()), first);
}

TEST(Trainer, AnEvaluationDoesNotDependOnTheBatch) {
  const ModelFolder folder(kModel);
  const std::vector<Row> rows = SomeRows();
  const RowList list(rows);
  const auto evaluate = [&](const std::string& batch) {
    const auto session = Session::Open(ConfigWith(folder, {batch}), TestJob());
    session->TakeWeights();
    return Evaluate(*session, list);
  };
  const EvaluationSums wanted = evaluate("run.global_batch=6"), found = evaluate("run.global_batch=4");
  EXPECT_EQ(found.tokens, wanted.tokens);
  EXPECT_EQ(found.correct, wanted.correct);
  EXPECT_NEAR(found.loss, wanted.loss, 1e-4 * wanted.loss);
  EXPECT_GT(wanted.mean_loss(), 1);
  EXPECT_LT(wanted.mean_loss(), 50);
}

TEST(Trainer, BiasesMoveTokensToExpertsThatGotFewer) {
  const ModelFolder folder(kModel);
  const auto session = Session::Open(ConfigWith(folder, {}), TestJob());
  session->TakeWeights();
  Trainer trainer(*session);
  trainer.Pass(SomeRows());
  const at::Tensor& bias = trainer.model().weights().Find("layers.1.router.bias").value;
  const at::Tensor before = bias.clone();
  const ExpertBalance balance = trainer.TakeBalance();
  const at::Tensor rows = at::tensor(balance.RowsOf("layers.1"));
  ASSERT_NE(rows.max().item<float>(), rows.min().item<float>());
  trainer.MoveBiases(balance, 0.25);
  const at::Tensor moved = bias - before;
  EXPECT_FLOAT_EQ(moved[rows.argmax().item<int64_t>()].item<float>(), -0.25f);
  EXPECT_FLOAT_EQ(moved[rows.argmin().item<int64_t>()].item<float>(), 0.25f);
}

}  // namespace
}  // namespace trireme
