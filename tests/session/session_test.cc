// One model in memory serves training, generation and a frozen reference: a run that samples after every step
// equals, bit for bit, the run that never does, its memory does not grow, and its tokens equal those of a
// session that only generates from the weights it saved. Over several layouts, on four ranks.
#include "session/session.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/run_checkpoints.h"
#include "core/base/error.h"
#include "core/config/load.h"
#include "core/tensor/counted_memory.h"
#include "generation/generator.h"
#include "parallel/objectives/log_probs.h"
#include "parallel/tensor/collectives.h"
#include "stages/other_models.h"
#include "tests/core/comm/spmd.h"
#include "tests/session/model_folder.h"
#include "train/states/run_saver.h"
#include "train/step/trainer.h"

namespace trireme {
namespace {

using Tokens = std::vector<int64_t>;
constexpr int kSteps = 50;
constexpr int64_t kVocabulary = 96;

const char* const kModel = R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 96,
  "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4,
  "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 128, "rms_norm_eps": 1e-6,
  "rope_theta": 10000.0, "tie_word_embeddings": false, "hidden_act": "silu", "attention_bias": false,
  "eos_token_id": 0})";

Config ConfigWith(const std::string& model, std::vector<std::string> layout) {
  layout.insert(layout.end(), {"model.path=" + model, "model.init=random", "model.dtype=fp32", "device=cpu",
                               "run.micro_batch=2", "run.seed=7"});
  return ParseConfig("", "test", layout);
}

std::vector<Row> RowsOf(int step) {
  std::vector<Row> rows(4);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (int64_t i = 0; i < 5 + static_cast<int64_t>(r); ++i) {
      rows[r].input_ids.push_back((step * 31 + static_cast<int64_t>(r) * 7 + i * i) % kVocabulary);
    }
    rows[r].labels = rows[r].input_ids;
  }
  return rows;
}

std::vector<Tokens> Sample(Session& session) {
  const std::vector<Tokens> prompts = {{1, 2, 3}, {4, 5}, {6, 7, 8, 9, 10}};  // fewer than data-parallel ranks
  std::vector<Tokens> answers(prompts.size());
  Generator generator(session);
  generator.Run(prompts, {.batch = 2}, [&](size_t row, int64_t token) {
    answers[row].push_back(token);
    return answers[row].size() < 3;
  });
  return answers;
}

// Over the labels of some rows on all ranks: the loss of a forward-only pass.
double ForwardLoss(Session& session, bool adapters) {
  const WeightedLogProbs objective;
  const std::vector<Row> rows = RowsOf(3);
  const RowList list(rows);
  std::vector<int64_t> all(rows.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  PassBatch batch(
      MakePassInputs(rows, ShapeOf(session)),
      {.objective = &objective, .differentiate = false, .adapters = adapters, .totals = TotalsOf(list, all)});
  session.RunForward(batch);
  return session.ReduceSums(batch.result(), objective.SumNames(0)).at("loss");
}

// What a head's rank makes of its hidden states by hand: the log-softmax over the whole vocabulary, at the labels.
at::Tensor LogProbsOf(Session& session, const PassOutput& output, const at::Tensor& labels) {
  const at::Tensor weight = session.model().weights().Find("head.logits.weight").value;  // [vocabulary / tp, hidden]
  const at::Tensor logits = AllGatherRows(at::mm(weight, output.hidden.t()).contiguous(), session.groups().Get("tp"));
  const at::Tensor all = at::log_softmax(logits.t(), 1), trained = labels.ne(kNotTrained);
  return all.gather(1, (labels * trained).unsqueeze(1)).squeeze(1) * trained;
}

struct Outcome {
  std::vector<double> losses;
  std::vector<Tokens> tokens;               // after the last step
  int64_t bytes_early = 0, bytes_late = 0;  // of tensors, between steps
  double forward_loss = 0;                  // after the last step
};

double Step(Trainer& trainer, int step) {
  const double loss = trainer.Pass(RowsOf(step));
  trainer.FinishGradients();
  trainer.optimizer().Update(1e-2);
  return loss;
}

Outcome Train(const Config& config, bool samples, const std::filesystem::path& save_to = {}) {
  Outcome outcome;
  const auto session = Session::Open(config, TestJob());
  session->TakeWeights();
  Trainer trainer(*session);
  for (int step = 0; step < kSteps; ++step) {
    outcome.losses.push_back(Step(trainer, step));
    if (samples) outcome.tokens = Sample(*session);
    if (step == 4) outcome.bytes_early = CountedMemory::bytes();
  }
  outcome.bytes_late = CountedMemory::bytes();
  outcome.forward_loss = ForwardLoss(*session, true);
  if (save_to.empty()) return outcome;
  checkpoint::Manifest header;
  header.set_family(session->graph().family);
  RunSaver saver(trainer, TestJob(), {.output = save_to, .model = config.model().path(), .header = header});
  checkpoint::Progress progress;
  progress.set_step(kSteps);
  saver.Save(progress);
  saver.Finish();
  return outcome;
}

std::vector<Tokens> SampleSaved(Config config, const std::filesystem::path& checkpoint) {
  config.mutable_model()->set_path(checkpoint.string());
  config.mutable_model()->set_init(MODEL_INIT_WEIGHTS);
  const auto session = Session::Open(config, TestJob(), {.trained = false});
  session->TakeWeights();
  return Sample(*session);
}

void ExpectOneModelServesAll(const std::vector<std::string>& layout) {
  CountedMemory::Begin();
  const ModelFolder scratch(kModel);
  std::vector<std::string> full = layout;
  full.insert(full.end(), {"tuning.kind=full"});
  const Config config = ConfigWith(scratch.model(), full);
  const Outcome sampling = Train(config, true, scratch.output());
  const Outcome plain = Train(config, false);
  EXPECT_EQ(sampling.losses, plain.losses);  // to the last bit
  EXPECT_LT(sampling.losses.back(), sampling.losses.front());
  EXPECT_EQ(sampling.bytes_late, sampling.bytes_early);
  EXPECT_EQ(sampling.tokens, SampleSaved(config, CheckpointPath(scratch.output(), kSteps)));
}

TEST(Session, SamplesBetweenStepsUnderTensorAndPipelineParallelism) {
  ExpectOneModelServesAll({"parallel.tensor=2", "parallel.pipeline=2"});
}

TEST(Session, SamplesBetweenStepsUnderZero3) { ExpectOneModelServesAll({"parallel.zero=3"}); }

TEST(Session, SamplesBetweenStepsWithVirtualStages) {
  ExpectOneModelServesAll({"parallel.pipeline=2", "parallel.schedule=interleaved", "parallel.virtual_stages=2",
                           "parallel.tensor=2", "parallel.sequence=false", "memory.recompute=selective"});
}

// The hidden states that a pass hands out are those that its log-probabilities are made of.
TEST(Session, HiddenStatesGiveTheLogProbabilities) {
  const ModelFolder scratch(kModel);
  const auto session = Session::Open(
      ConfigWith(scratch.model(), {"parallel.tensor=2", "parallel.pipeline=2", "tuning.kind=full"}), TestJob());
  session->TakeWeights();
  const WeightedLogProbs objective;
  const PassWants wants{.log_probs = true, .hidden = true};
  PassBatch batch(MakePassInputs(RowsOf(1), ShapeOf(*session)),
                  {.objective = &objective, .differentiate = false, .totals = {.trained = 1}, .wants = wants});
  session->RunForward(batch);
  const bool has_head = session->Coordinate("pp") == 1;
  for (int i = 0; i < batch.size(); ++i) {
    const PassOutput& output = batch.result().outputs.at(static_cast<size_t>(i));
    ASSERT_EQ(output.hidden.defined(), has_head);
    if (!has_head) continue;
    const at::Tensor& labels = batch.input(i).labels;
    ASSERT_EQ(output.hidden.sizes(), (std::vector<int64_t>{labels.numel(), 32}));
    EXPECT_LT(output.log_probs.min().item<double>(), 0);
    EXPECT_TRUE(at::allclose(LogProbsOf(*session, output, labels), output.log_probs, 1e-5, 1e-6));
  }
}

// With adapters off a LoRA run's model is its base model, whatever was trained; a second frozen model is another.
TEST(Session, AReferenceWithAdaptersOffOrAsASecondModel) {
  const ModelFolder scratch(kModel);
  const std::vector<std::string> layout = {"parallel.tensor=2", "parallel.pipeline=2"};
  std::vector<std::string> base = layout, lora = layout;
  base.insert(base.end(), {"tuning.kind=full"});
  lora.insert(lora.end(), {"tuning.kind=lora", "tuning.rank=4", "tuning.dropout=0"});
  const Config base_config = ConfigWith(scratch.model(), base);
  const Outcome trained = Train(base_config, false, scratch.output());
  auto plain = Session::Open(base_config, TestJob());
  plain->TakeWeights();
  const double before = ForwardLoss(*plain, true);
  plain.reset();  // it owns its device
  // A reference is a whole model, whatever part of its own this run trains.
  std::vector<std::string> freeze = layout;
  freeze.insert(freeze.end(), {"tuning.kind=freeze", "tuning.last_layers=1"});
  auto last_layer = Session::Open(ConfigWith(scratch.model(), freeze), TestJob());
  auto reference = last_layer->OpenOther({.directory = CheckpointPath(scratch.output(), kSteps).string()});
  reference->TakeWeights();
  EXPECT_EQ(ForwardLoss(*reference, true), trained.forward_loss);
  reference.reset();
  last_layer.reset();
  const auto session = Session::Open(ConfigWith(scratch.model(), lora), TestJob());
  session->TakeWeights();
  Trainer trainer(*session);
  for (int step = 0; step < 3; ++step) Step(trainer, step);
  EXPECT_NE(ForwardLoss(*session, true), before);
  EXPECT_EQ(ForwardLoss(*session, false), before);
  const auto frozen = session->OpenOther({.directory = CheckpointPath(scratch.output(), kSteps).string()});
  frozen->TakeWeights();
  EXPECT_EQ(ForwardLoss(*frozen, true), trained.forward_loss);
  EXPECT_NE(trained.forward_loss, before);
  EXPECT_EQ(ForwardLoss(*session, false), before);
}

}  // namespace
}  // namespace trireme
