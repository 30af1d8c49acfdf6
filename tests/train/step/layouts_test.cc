// The law of equality on whole steps of a small model: under every layout the losses, the gradients' norms and the
// saved weights are those of a pipeline, whose ranks share no tensor. With a head tied to the embedding, key-value
// heads that tensor-parallel ranks share, rows of different length, and tokens that only some steps have.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/run_checkpoints.h"
#include "core/base/error.h"
#include "core/config/load.h"
#include "data/rows.h"
#include "tests/core/comm/spmd.h"
#include "tests/session/model_folder.h"
#include "train/evaluation/evaluator.h"
#include "train/states/run_saver.h"
#include "train/step/trainer.h"

namespace trireme {
namespace {

using Settings = std::vector<std::string>;
constexpr int64_t kVocabulary = 90;
constexpr int kSteps = 3;

// Half as many key-value heads as ranks.
std::string ModelConfig() {
  return Concat(R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": )", kVocabulary,
                R"(, "num_key_value_heads": )", TestJob().world() / 2,
                R"(, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
      "head_dim": 8, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
      "tie_word_embeddings": true, "hidden_act": "silu", "attention_bias": false, "initializer_range": 0.2})");
}

Config ConfigWith(const std::string& model, const Settings& layout, const Settings& more = {}) {
  Settings all = {"model.path=" + model, "model.dtype=fp32", "device=cpu",        "run.micro_batch=1",
                  "run.seed=7",          "tuning.kind=full", "run.global_batch=8"};
  all.insert(all.end(), layout.begin(), layout.end());
  all.insert(all.end(), more.begin(), more.end());
  return ParseConfig("", "test", all);
}

std::vector<Row> RowsOf(int step) {
  std::vector<Row> rows(8);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (int64_t i = 0; i < 9 + static_cast<int64_t>(r); ++i)
      rows[r].input_ids.push_back((step * 30 + static_cast<int64_t>(r) * 3 + i * i) % 30 + step * 30);
    rows[r].labels = rows[r].input_ids;
  }
  return rows;
}

struct Outcome {
  std::vector<double> losses, norms;
  double saved_loss = 0;  // of the weights that were saved
};

double LossOf(const Config& config) {
  const auto session = Session::Open(config, TestJob(), {.trained = false});
  session->TakeWeights();
  return Evaluate(*session, RowList(RowsOf(0))).mean_loss();
}

Outcome Train(const Settings& layout) {
  const ModelFolder folder(ModelConfig());
  Outcome outcome;
  {
    const Config config = ConfigWith(folder.model(), layout, {"model.init=random"});
    const auto session = Session::Open(config, TestJob());
    session->TakeWeights();
    Trainer trainer(*session);
    for (int step = 0; step < kSteps; ++step) {
      outcome.losses.push_back(trainer.Pass(RowsOf(step)));
      outcome.norms.push_back(trainer.FinishGradients().norm);
      trainer.optimizer().Update(1e-2);
    }
    checkpoint::Manifest header;
    header.set_family(session->graph().family);
    RunSaver saver(trainer, TestJob(), {.output = folder.output(), .model = config.model().path(), .header = header});
    checkpoint::Progress progress;
    progress.set_step(kSteps);
    saver.Save(progress);
    saver.Finish();
  }
  const std::string saved = CheckpointPath(folder.output(), kSteps).string();
  outcome.saved_loss = LossOf(ConfigWith(saved, {}, {"model.init=weights"}));
  return outcome;
}

std::vector<Settings> Layouts() {
  const std::string all = std::to_string(TestJob().world());
  std::vector<Settings> layouts = {
      {"parallel.zero=0"},         {"parallel.zero=1"},
      {"parallel.zero=2"},         {"parallel.zero=3"},
      {"parallel.tensor=" + all},  {"parallel.tensor=" + all, "parallel.sequence=false"},
      {"parallel.context=" + all}, {"parallel.pipeline=2", "parallel.schedule=zero_bubble", "parallel.zero=2"},
  };
  if (TestJob().world() < 4) return layouts;
  layouts.push_back({"parallel.tensor=2", "parallel.context=2"});
  layouts.push_back({"parallel.tensor=2", "parallel.zero=2"});
  layouts.push_back({"parallel.context=2", "parallel.zero=3"});
  layouts.push_back({"parallel.tensor=2", "parallel.pipeline=2"});
  layouts.push_back({"parallel.context=4", "parallel.context_method=hybrid"});
  layouts.push_back({"parallel.replicas=2", "parallel.zero=3"});
  layouts.push_back({"parallel.replicas=2", "parallel.zero=1", "parallel.tensor=2"});
  return layouts;
}

TEST(Layouts, GiveTheSameStepsAndTheSameCheckpoint) {
  const Outcome wanted = Train({"parallel.pipeline=" + std::to_string(TestJob().world())});
  EXPECT_NE(wanted.losses.front(), wanted.losses.back());
  for (const Settings& layout : Layouts()) {
    std::string name;
    for (const std::string& setting : layout) name += setting + " ";
    SCOPED_TRACE(name);
    const Outcome found = Train(layout);
    for (size_t step = 0; step < wanted.losses.size(); ++step) {
      EXPECT_NEAR(found.losses[step], wanted.losses[step], 1e-3 * wanted.losses[step]) << "step " << step;
      EXPECT_NEAR(found.norms[step], wanted.norms[step], 2e-3 * wanted.norms[step]) << "step " << step;
    }
    EXPECT_NEAR(found.saved_loss, wanted.saved_loss, 1e-3 * wanted.saved_loss);
  }
}

}  // namespace
}  // namespace trireme
