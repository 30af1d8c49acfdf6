// The run, with a method of the test's own: when it is asked what, and what saves, stops, resumes, evaluations, signals
// and faults make of it. The model is tiny, and real.
#include "train/run/loop.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/run_checkpoints.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/config/load.h"
#include "tests/core/comm/spmd.h"
#include "tests/session/model_folder.h"
#include "train/methods/method.h"
#include "train/step/no_step.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

const char* const kModel = R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 32,
  "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
  "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 32, "rms_norm_eps": 1e-6,
  "rope_theta": 10000.0, "tie_word_embeddings": false, "hidden_act": "silu", "attention_bias": false})";

struct NothingCame : NoStep {
  using NoStep::NoStep;
  const char* missing() const override { return "news"; }
};

// What the method is to do, and what it was asked.
struct Script {
  std::function<void(int64_t step)> before_pass = [](int64_t) {};
  std::function<double(int64_t step)> loss = [](int64_t step) { return 1.0 / static_cast<double>(step); };
  int64_t window = 1;        // steps that are not parted
  bool keeps_model = false;  // a second one, in the checkpoints

  std::vector<std::string> asked = {};
  int64_t started_from = -1;
};

// Two rows, both in each step.
class Recorder : public Method {
 public:
  explicit Recorder(Script& script) : script_(script) {}

  DataSets Open(const DataPlace& place) override {
    script_.asked.emplace_back("open");
    EXPECT_EQ(place.vocabulary, 32);
    std::vector<Row> rows(2);
    for (int64_t r = 0; r < 2; ++r) {
      for (int64_t i = 0; i < 6; ++i) rows[static_cast<size_t>(r)].input_ids.push_back((7 * r + i * i) % 32);
      rows[static_cast<size_t>(r)].labels = rows[static_cast<size_t>(r)].input_ids;
    }
    rows_ = std::make_shared<RowList>(rows);
    return {.train = rows_, .valid = rows_, .samples = 2};
  }
  void CheckStart(const RunStart& start) const override { script_.started_from = start.step; }
  void Begin(const MethodRun& run) override {
    script_.asked.emplace_back("begin");
    trainer_ = &run.trainer;
    if (script_.keeps_model)
      kept_ = trainer_->session().OpenOther({.directory = trainer_->session().config().model().path()});
  }
  bool wants_start() override { return true; }
  void TakeStart() override { script_.asked.emplace_back("start"); }
  void Prepare() override { script_.asked.emplace_back("prepare"); }
  std::vector<SavedModel> others() override {
    if (!kept_) return {};
    return {{.what = {.name = "kept", .saved_as = "kept_model"}, .session = kept_.get()}};
  }
  void Pass(int64_t step) override {
    script_.before_pass(step);
    script_.asked.push_back(Concat("pass ", step));
    step_ = step;
    trainer_->StartPass(*rows_, std::vector<int64_t>{0, 1});
  }
  StepResult Result() override {
    return {.loss = script_.loss(step_),
            .epoch = static_cast<double>(step_),
            .metrics = {{"ten_times", 10.0 * static_cast<double>(step_)}},
            .rows = rows_.get(),
            .chosen = {0, 1}};
  }
  void AfterUpdate(int64_t step) override { script_.asked.push_back(Concat("updated ", step)); }
  bool EndsWindow(int64_t step) const override { return step % script_.window == 0; }
  bool EndsEpoch(int64_t step) override { return step % 4 == 0; }
  Evaluation Evaluate(int64_t /*step*/) override {
    script_.asked.emplace_back("evaluate");
    return {.loss = 2.5, .metrics = {{"certainty", 0.5}}};
  }
  void AddTo(checkpoint::Progress& progress) const override { progress.set_kl_coefficient(0.125); }

 private:
  Script& script_;
  std::shared_ptr<const RowList> rows_;
  Trainer* trainer_ = nullptr;
  std::unique_ptr<Session> kept_;
  int64_t step_ = 0;
};

class LoopTest : public testing::Test {
 protected:
  fs::path Output(const std::string& name) const { return folder_.output() / name; }

  Config ConfigFor(const std::string& name, std::vector<std::string> settings = {}) const {
    std::vector<std::string> all = {"model.path=" + folder_.model(),
                                    "model.init=random",
                                    "model.dtype=fp32",
                                    "device=cpu",
                                    "run.steps=6",
                                    "run.global_batch=2",
                                    "run.micro_batch=1",
                                    "save.every=0",
                                    "log.every=1",
                                    "run.seed=3",
                                    "tuning.kind=full",
                                    "optimizer.lr=0.01",
                                    "run.output=" + Output(name).string()};
    all.insert(all.end(), settings.begin(), settings.end());
    return ParseConfig("", "test", all);
  }

  void Train(Script& script, const Config& config) const {
    const PlannedModel model = PlanModel(config, TestJob().world());
    RunTraining(config, model.graph, model.plan, TestJob(), std::make_unique<Recorder>(script),
                {.report = ReportForm::kPlain});
  }
  void Train(Script& script, const std::string& name, std::vector<std::string> settings = {}) const {
    Train(script, ConfigFor(name, std::move(settings)));
  }

  std::vector<Json> Log(const std::string& name) const {
    std::istringstream lines(ReadTextFile((Output(name) / "log.jsonl").string()));
    std::vector<Json> found;
    for (std::string line; std::getline(lines, line);) found.push_back(Json::parse(line));
    return found;
  }

  std::vector<int64_t> Saved(const std::string& name) const {
    std::vector<int64_t> steps;
    for (const RunCheckpoint& one : FindCheckpoints(Output(name))) steps.push_back(one.step);
    return steps;
  }

  std::string FinalWeights(const std::string& name) const {
    return ReadTextFile((Output(name) / "final/model.safetensors").string());
  }

  const ModelFolder folder_{kModel};
};

std::string ErrorOf(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_F(LoopTest, AsksTheMethodStepByStep) {
  Script method;
  Train(method, "whole", {"save.every=4", "eval.every=3"});
  const std::vector<std::string> wanted = {"open",      "begin",     "start",     "prepare",   "pass 1",    "updated 1",
                                           "pass 2",    "updated 2", "pass 3",    "updated 3", "evaluate",  "pass 4",
                                           "updated 4", "pass 5",    "updated 5", "pass 6",    "updated 6", "evaluate"};
  EXPECT_EQ(method.asked, wanted);
  EXPECT_EQ(method.started_from, 0);
  EXPECT_EQ(Saved("whole"), (std::vector<int64_t>{4, 6})) << "every fourth step, and the last";
  EXPECT_TRUE(fs::exists(Output("whole") / "final/model.safetensors"));
  const checkpoint::Progress progress = ReadManifest(CheckpointPath(Output("whole"), 6)).progress();
  EXPECT_EQ(progress.kl_coefficient(), 0.125) << "what the method's next start needs";
  EXPECT_EQ(progress.updates(), 6);
  const std::vector<Json> log = Log("whole");
  ASSERT_EQ(log.size(), 6u);
  EXPECT_EQ(log[1]["loss"], 0.5);
  EXPECT_EQ(log[1]["ten_times"], 20);
  EXPECT_EQ(log[1]["epoch"], 2);
  EXPECT_EQ(log[1]["tokens"], 10) << "of both rows but the first of each";
  EXPECT_FALSE(log[1].contains("eval_loss"));
  EXPECT_EQ(log[2]["eval_loss"], 2.5);
  EXPECT_EQ(log[2]["eval_certainty"], 0.5);

  Script again;
  Train(again, "whole", {"save.every=4", "eval.every=3"});
  EXPECT_EQ(again.asked, std::vector<std::string>{"open"}) << "the run is complete";
}

TEST_F(LoopTest, EvaluatesBeforeTheFirstStep) {
  Script method;
  Train(method, "early", {"eval.at_start=true", "save.every=4"});
  ASSERT_GT(method.asked.size(), 6u);
  EXPECT_EQ(method.asked[4], "evaluate");
  EXPECT_EQ(method.asked[5], "pass 1");
  const std::vector<Json> log = Log("early");
  ASSERT_EQ(log.size(), 7u);
  EXPECT_EQ(log[0]["step"], 0);
  EXPECT_EQ(log[0]["eval_loss"], 2.5);
  EXPECT_FALSE(log[0].contains("loss"));
  EXPECT_EQ(log[1]["loss"], 1) << "that of the first step, not a mean with the line before";
  EXPECT_EQ(ReadManifest(CheckpointPath(Output("early"), 6)).progress().best().step(), 0)
      << "no checkpoint has its weights";
}

TEST_F(LoopTest, EpochsAreTheMethods) {
  Script method;
  Train(method, "epochs", {"save.every_epoch=true", "eval.every_epoch=true"});
  EXPECT_EQ(Saved("epochs"), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(std::ranges::count(method.asked, "evaluate"), 2);
}

TEST_F(LoopTest, StopsWhereAWindowEndsAndGoesOn) {
  Script whole, stopped, resumed;
  stopped.window = resumed.window = whole.window = 3;
  Train(whole, "whole");
  stopped.before_pass = [](int64_t step) {
    if (step == 2) raise(SIGTERM);
  };
  Train(stopped, "stopped");
  EXPECT_EQ(stopped.asked.back(), "updated 3") << "updates that share something are not parted";
  EXPECT_EQ(Saved("stopped"), std::vector<int64_t>{3});
  EXPECT_FALSE(fs::exists(Output("stopped") / "final"));

  Train(resumed, "stopped");
  EXPECT_EQ(resumed.started_from, 3);
  EXPECT_EQ(std::ranges::count(resumed.asked, "pass 3"), 0);
  EXPECT_EQ(std::ranges::count(resumed.asked, "pass 4"), 1);
  EXPECT_EQ(Log("stopped").size(), 6u);
  EXPECT_TRUE(FinalWeights("stopped") == FinalWeights("whole")) << "as if it had never been stopped";
}

// Its record is as a program wrote it whose section run had keys that are now those of eval, save and log.
TEST_F(LoopTest, ARunOfFormerNamesGoesOn) {
  Script first, resumed;
  Train(first, "former", {"run.steps=4"});
  const std::string former = "run: {steps: 4, global_batch: 2, seed: 3, save_every: 0, log_every: 1, keep: 3}\n";
  std::ofstream(Output("former") / "run.yaml") << former;
  Train(resumed, "former");
  EXPECT_EQ(resumed.started_from, 4);
  EXPECT_EQ(Log("former").size(), 6u);
  EXPECT_EQ(ReadTextFile((Output("former") / "run-1.yaml").string()), former);
  const std::string record = ReadTextFile((Output("former") / "run.yaml").string());
  EXPECT_NE(record.find("save:\n  every: 0\n"), std::string::npos) << record;
  EXPECT_EQ(record.find("save_every"), std::string::npos);
}

TEST_F(LoopTest, AStepThatCannotBeginLosesNothing) {
  Script method, resumed;
  method.before_pass = [](int64_t step) {
    if (step == 4) throw NothingCame(ErrorKind::kRuntime, "the line is dead");
  };
  EXPECT_EQ(ErrorOf([&] { Train(method, "cut"); }), "the line is dead");
  EXPECT_EQ(Saved("cut"), std::vector<int64_t>{3}) << "the steps before it";
  Train(resumed, "cut");
  EXPECT_EQ(resumed.started_from, 3);
  EXPECT_EQ(Saved("cut").back(), 6);
}

TEST_F(LoopTest, OtherFaultsAreNotSaved) {
  Script method;
  method.before_pass = [](int64_t step) {
    if (step == 4) throw RuntimeError("the disk is gone");
  };
  EXPECT_EQ(ErrorOf([&] { Train(method, "fault"); }), "the disk is gone");
  EXPECT_TRUE(Saved("fault").empty());
}

TEST_F(LoopTest, LossesThatAreNoNumbersEndTheRunOrAreSkipped) {
  Script method, skipping;
  method.loss = skipping.loss = [](int64_t step) { return step == 2 ? std::nan("") : 1.0; };
  EXPECT_NE(ErrorOf([&] { Train(method, "nan"); }).find("step 2: not finite: the loss is nan"), std::string::npos);
  EXPECT_EQ(std::ranges::count(method.asked, "updated 2"), 0);

  Train(skipping, "skipped", {"run.on_nonfinite=skip"});
  EXPECT_EQ(ReadManifest(CheckpointPath(Output("skipped"), 6)).progress().updates(), 5);
  EXPECT_TRUE(Log("skipped")[1].contains("skipped"));
}

TEST_F(LoopTest, SavesWeightsAlone) {
  Script method;
  Train(method, "whole", {"run.steps=2"});
  Train(method, "weights", {"run.steps=2", "save.weights_only=true"});
  const checkpoint::Manifest manifest = ReadManifest(CheckpointPath(Output("weights"), 2));
  EXPECT_TRUE(
      std::ranges::all_of(manifest.tensors(), [](const auto& one) { return one.key().starts_with("weights/"); }));
  EXPECT_TRUE(FinalWeights("weights") == FinalWeights("whole"));
  EXPECT_NE(ErrorOf([&] {
              Train(method, "weights", {"run.steps=4", "save.weights_only=true"});
            }).find("checkpoint-2: was saved with save.weights_only"),
            std::string::npos);
}

TEST_F(LoopTest, WritesHuggingFaceDirectoriesAlongTheWay) {
  Script method, resumed;
  Train(method, "short", {"run.steps=4", "optimizer.schedule=constant"});
  Train(resumed, "along", {"save.hf_every=4", "save.keep=1", "optimizer.schedule=constant"});
  EXPECT_TRUE(ReadTextFile((Output("along") / "hf-4/model.safetensors").string()) == FinalWeights("short"));
  EXPECT_TRUE(ReadTextFile((Output("along") / "hf-6/model.safetensors").string()) == FinalWeights("along"));
  EXPECT_EQ(Saved("along"), std::vector<int64_t>{6}) << "save.keep removes checkpoints, not these";
}

TEST_F(LoopTest, CheckpointsHaveTheMethodsOtherModels) {
  Script first;
  Train(first, "start");  // whose final/ is a model with weights
  Script method;
  method.keeps_model = true;
  Train(method, "kept", {"model.path=" + (Output("start") / "final").string(), "model.init=weights"});
  const fs::path folder = CheckpointPath(Output("kept"), 6) / "kept_model";
  EXPECT_EQ(ReadManifest(folder).progress().step(), 6);
  EXPECT_FALSE(fs::exists(Output("kept") / "final_kept")) << "it was not trained";
}

}  // namespace
}  // namespace trireme
