// Steps whose experts exchange tokens in expected sizes, against the same steps with exact ones: losses, norms of the
// gradients and routers' statistics are equal to the bit, also of a step that does not fit and is repeated. In a
// pipeline one stage has no experts, and must repeat it, too.
#include "train/step/exchange_forecast.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/config/load.h"
#include "data/rows.h"
#include "tests/core/comm/spmd.h"
#include "tests/session/model_folder.h"
#include "train/evaluation/evaluator.h"
#include "train/step/trainer.h"

namespace trireme {
namespace {

using Settings = std::vector<std::string>;
constexpr int64_t kVocabulary = 96, kLongest = 128;
constexpr int kSteps = 4, kCrowded = 2;  // the step whose tokens do not fit

const char* const kModel = R"({"model_type": "deepseek_v3", "vocab_size": 96, "hidden_size": 32,
  "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
  "kv_lora_rank": 8, "q_lora_rank": 12, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
  "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
  "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "num_nextn_predict_layers": 1,
  "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
  "tie_word_embeddings": false, "initializer_range": 0.3})";

// Eight short rows; in the crowded step long ones of a single token, which all choose the same experts.
std::vector<Row> RowsOf(int step) {
  const bool crowded = step == kCrowded;
  std::vector<Row> rows(8);
  for (int64_t r = 0; r < std::ssize(rows); ++r) {
    for (int64_t i = 0; i < (crowded ? kLongest : 6 + r); ++i) {
      rows[r].input_ids.push_back(crowded ? 5 : (step * 11 + r * 7 + i * i) % kVocabulary);
    }
    rows[r].labels = rows[r].input_ids;
  }
  return rows;
}

struct Outcome {
  std::vector<double> losses, norms;
  std::vector<std::string> experts;
  std::vector<int64_t> repeats;
  double evaluated = 0;
};

Outcome Train(const ModelFolder& folder, const Settings& layout, const std::string& exchange) {
  Settings all = {"model.path=" + folder.model(),
                  "model.init=random",
                  "model.dtype=fp32",
                  "device=cpu",
                  "run.seed=7",
                  "tuning.kind=full",
                  "run.micro_batch=1",
                  "experts.balance_coefficient=0.1",
                  "experts.exchange=" + exchange};
  all.insert(all.end(), layout.begin(), layout.end());
  const auto session = Session::Open(ParseConfig("", "test", all), TestJob());
  session->TakeWeights();
  Trainer trainer(*session);
  Outcome outcome;
  for (int step = 0; step < kSteps; ++step) {
    trainer.StartPass(RowsOf(step));
    outcome.norms.push_back(trainer.FinishGradients().norm);
    outcome.losses.push_back(trainer.loss());
    trainer.optimizer().Update(1e-2);
    outcome.experts.push_back(JsonLine(trainer.TakeBalance().ToJson()));
    outcome.repeats.push_back(trainer.repeats());
    // Has exact sizes, whatever a step expects.
    if (step == kCrowded - 1) outcome.evaluated = Evaluate(*session, RowList(RowsOf(kCrowded))).mean_loss();
  }
  return outcome;
}

std::vector<Settings> Layouts() {
  if (TestJob().world() == 2) {
    return {{"parallel.expert=2"},
            {"parallel.expert_tensor=2", "parallel.tensor=2", "memory.recompute=full"},
            {"parallel.expert=2", "parallel.context=2", "memory.recompute=selective"},
            {"parallel.expert=2", "parallel.tensor=2", "parallel.sequence=false", "multi_token_prediction.depths=1"}};
  }
  return {{"parallel.expert=2", "parallel.pipeline=2"},
          {"parallel.expert=2", "parallel.expert_tensor=2", "parallel.zero=0"},
          {"parallel.expert=2", "parallel.zero=2"},
          {"parallel.expert=4", "parallel.zero=3", "memory.recompute=full"},
          {"parallel.expert=2", "parallel.pipeline=2", "parallel.schedule=zero_bubble", "parallel.zero=2"}};
}

TEST(ExchangeForecast, ExpectedSizesGiveTheStepsOfExactOnes) {
  const ModelFolder folder(kModel);
  for (const Settings& layout : Layouts()) {
    std::string name;
    for (const std::string& setting : layout) name += setting + " ";
    SCOPED_TRACE(name);
    const Outcome wanted = Train(folder, layout, "exact"), found = Train(folder, layout, "expected");
    EXPECT_EQ(wanted.repeats, (std::vector<int64_t>{0, 0, 0, 0}));
    EXPECT_EQ(found.repeats, (std::vector<int64_t>{0, 0, 1, 1}));
    EXPECT_EQ(found.losses, wanted.losses);
    EXPECT_EQ(found.norms, wanted.norms);
    EXPECT_EQ(found.experts, wanted.experts);
    EXPECT_EQ(found.evaluated, wanted.evaluated);
    EXPECT_GT(wanted.norms[1], 0.01);
    EXPECT_NE(wanted.losses[0], wanted.losses[3]);
  }
}

TEST(ExchangeForecast, ForgetsOldStepsSlowly) {
  ExpectedRows rows;
  EXPECT_TRUE(rows.rooms().empty());
  rows.Learn(std::vector<float>{1600, 0});
  EXPECT_EQ(rows.rooms(), (std::vector<int64_t>{1600 + 200 + 32, 32}));
  rows.Learn(std::vector<float>{0, 80});
  EXPECT_EQ(rows.rooms(), (std::vector<int64_t>{1500 + 187 + 32, 80 + 10 + 32}));
  rows.Forget();
  EXPECT_TRUE(rows.rooms().empty());
  rows.Learn(std::vector<float>{1480, 80});
  EXPECT_EQ(rows.rooms(), (std::vector<int64_t>{1480 + 185 + 32, 80 + 10 + 32}));
}

}  // namespace
}  // namespace trireme
