// Units of remote training on a small model, without a server: of adapters (RemoteTrainer) and of all parameters
// (FullTrainer). Each against itself: passes that share a step, models that share a pass, what is saved, and what
// fails.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/config/load.h"
#include "tests/core/comm/spmd.h"
#include "tests/session/model_folder.h"
#include "train/remote/full_trainer.h"
#include "train/remote/remote_trainer.h"

namespace trireme {
namespace {

const char* const kModel = R"({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 32,
  "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
  "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 32, "rms_norm_eps": 1e-6,
  "rope_theta": 10000.0, "tie_word_embeddings": false, "hidden_act": "silu", "attention_bias": false,
  "initializer_range": 0.3})";
constexpr AdamNumbers kAdam{.learning_rate = 1e-2, .eps = 1e-5, .weight_decay = 0.1, .grad_clip_norm = 1};

// Tokens from `first` on, each of which predicts the next one.
TrainRow RowFrom(int64_t first, float weight = 1) {
  TrainRow row;
  for (int64_t i = first; i < first + 5; ++i) {
    row.tokens.push_back(i);
    row.targets.push_back(i + 1);
    row.inputs.weights.push_back(weight);
  }
  return row;
}

TrainWork PassOf(const std::string& model, std::vector<TrainRow> rows, bool backward = true) {
  return {.model = model, .rows = std::move(rows), .backward = backward};
}
TrainWork Unit(TrainAction action, const std::string& model, const std::string& directory = "") {
  return {.action = action, .model = model, .adam = kAdam, .directory = directory, .optimizer = !directory.empty()};
}

// A server's ranks: a session, an engine, and what trains.
template <typename AnyTrainer>
class Ranks {
 public:
  template <typename... Arguments>
  explicit Ranks(const Config& config, const Arguments&... arguments)
      : session_(Session::Open(config, TestJob())), engine_(*session_, {.max_rows = 2, .own_adapter = false}) {
    session_->TakeWeights();
    trainer_.emplace(*session_, engine_, arguments...);
  }
  TrainOutcome Run(const TrainWork& work) { return trainer_->Run({work}).front(); }
  std::vector<TrainOutcome> RunJoined(const std::vector<TrainWork>& works) { return trainer_->Run(works); }
  // Of one that works.
  TrainOutcome Do(const TrainWork& work) {
    const TrainOutcome outcome = Run(work);
    EXPECT_EQ(outcome.error, "");
    return outcome;
  }
  double LossOf(const std::string& model, int64_t first) {
    return Do(PassOf(model, {RowFrom(first)}, /*backward=*/false)).loss;
  }

 private:
  std::unique_ptr<Session> session_;
  Engine engine_;
  std::optional<AnyTrainer> trainer_;
};

class RemoteTrainersTest : public testing::Test {
 protected:
  Config Plain() const {
    return ParseConfig("", "test",
                       {"model.path=" + folder_.model(), "model.init=random", "model.dtype=fp32", "device=cpu",
                        "run.micro_batch=1", "run.seed=5"});
  }
  std::string Directory(const std::string& name) const {
    const std::filesystem::path directory = folder_.output() / name;
    std::filesystem::create_directories(directory);
    return directory.string();
  }
  Ranks<RemoteTrainer> Adapters(int64_t in_memory = 8) const {
    const RemoteLimits limits{.max_rank = 4, .slots = 2, .in_memory = in_memory, .directory = Directory("idle")};
    Config config = Plain();
    PrepareForRemoteTraining(config, limits);
    return Ranks<RemoteTrainer>(config, limits);
  }
  Ranks<FullTrainer> Full() const {
    Config config = Plain();
    PrepareForFullTraining(config);
    return Ranks<FullTrainer>(config);
  }
  static TrainWork Create(const std::string& model, int64_t rank = 4) {
    return {.action = TrainAction::kCreate, .model = model, .adapters = {.rank = rank, .seed = 3}};
  }

  // Two passes before a step count as one of their rows, and one that is not finite, as `refusal` says, as none.
  template <typename AnyTrainer>
  static void ExpectSummedPasses(Ranks<AnyTrainer>& parts, Ranks<AnyTrainer>& whole, const std::string& refusal) {
    for (Ranks<AnyTrainer>* ranks : {&parts, &whole}) ranks->Do(Create("m"));
    EXPECT_NE(parts.Run(Unit(TrainAction::kStep, "m")).error.find("there are no gradients"), std::string::npos);
    for (int step = 1; step <= 3; ++step) {
      const double one = parts.Do(PassOf("m", {RowFrom(1)})).loss, other = parts.Do(PassOf("m", {RowFrom(9)})).loss;
      const TrainOutcome bad = parts.Run(PassOf("m", {RowFrom(3, std::numeric_limits<float>::infinity())}));
      EXPECT_NE(bad.error.find(refusal), std::string::npos) << bad.error;
      EXPECT_TRUE(bad.users_fault);
      EXPECT_NEAR(whole.Do(PassOf("m", {RowFrom(1), RowFrom(9)})).loss, one + other, 1e-4);
      const TrainOutcome found = parts.Do(Unit(TrainAction::kStep, "m")),
                         wanted = whole.Do(Unit(TrainAction::kStep, "m"));
      EXPECT_GT(found.grad_norm, kAdam.grad_clip_norm) << "it is clipped";
      EXPECT_NEAR(found.grad_norm / wanted.grad_norm, 1, 1e-4);
      EXPECT_EQ(found.step, step);
    }
    EXPECT_NEAR(parts.LossOf("m", 1), whole.LossOf("m", 1), 1e-3);
  }

  // What is saved goes on as it would have.
  template <typename AnyTrainer>
  static void ExpectResumed(Ranks<AnyTrainer>& ranks, const std::string& directory) {
    const double begin = ranks.LossOf("m", 1);
    const auto step = [&] {
      ranks.Do(PassOf("m", {RowFrom(1)}));
      ranks.Do(Unit(TrainAction::kStep, "m"));
      return ranks.LossOf("m", 1);
    };
    const double first = step();
    EXPECT_LT(first, begin);
    ranks.Do(Unit(TrainAction::kSave, "m", directory));
    const double second = step();
    ranks.Do(PassOf("m", {RowFrom(9)}));  // gradients go with the weights
    ranks.Do(Unit(TrainAction::kLoad, "m", directory));
    EXPECT_EQ(ranks.LossOf("m", 1), first);
    EXPECT_NE(ranks.Run(Unit(TrainAction::kStep, "m")).error, "");
    EXPECT_NEAR(step(), second, 1e-6) << "with the moments that were saved";
  }

  const ModelFolder folder_{kModel};
};

TEST_F(RemoteTrainersTest, PassesOfAnAdapterAddUp) {
  Ranks<RemoteTrainer> parts = Adapters(), whole = Adapters();
  ExpectSummedPasses(parts, whole, "a ratio of probabilities overflows");
}

TEST_F(RemoteTrainersTest, PassesOfAllParametersAddUp) {
  Ranks<FullTrainer> parts = Full(), whole = Full();
  ExpectSummedPasses(parts, whole, "the gradient is not finite");
}

TEST_F(RemoteTrainersTest, ASavedAdapterGoesOn) {
  Ranks<RemoteTrainer> ranks = Adapters();
  ranks.Do(Create("m"));
  const std::string directory = Directory("adapter");
  ExpectResumed(ranks, directory);
  // It also samples, and answers passes without being a model.
  const TrainOutcome opened = ranks.Do({.action = TrainAction::kOpenSampler, .directory = directory});
  EXPECT_GE(opened.sampler, 0);
  ranks.Do({.action = TrainAction::kDropSampler, .sampler = opened.sampler});
  ranks.Do(Unit(TrainAction::kLoad, "m", directory));
  const TrainOutcome saved = ranks.Do({.rows = {RowFrom(1)}, .directory = directory});
  EXPECT_EQ(saved.loss, ranks.LossOf("m", 1));
}

TEST_F(RemoteTrainersTest, AModelInFullGoesOnAndEndsWhereItBegan) {
  Ranks<FullTrainer> ranks = Full();
  const double begin = ranks.LossOf("", 1);
  ranks.Do(Create("m"));
  ExpectResumed(ranks, Directory("full"));
  EXPECT_NE(ranks.Run(PassOf("other", {RowFrom(1)})).error.find("model 'other' is gone"), std::string::npos);
  EXPECT_NE(ranks.Run({.action = TrainAction::kOpenSampler}).error.find("it has no adapters"), std::string::npos);
  ranks.Do(PassOf("m", {RowFrom(1)}));
  ranks.Do(Unit(TrainAction::kDrop, "m"));
  EXPECT_EQ(ranks.LossOf("", 1), begin);
  ranks.Do(Create("n"));
  EXPECT_NE(ranks.Run(Unit(TrainAction::kStep, "n")).error, "") << "the gradients went with the model before";
}

// Of different ranks, side by side: neither knows of the other, in one pass or in turns, in memory or in a file.
TEST_F(RemoteTrainersTest, AdaptersThatShareAPassAreAsIfAlone) {
  std::vector<std::vector<double>> losses;
  for (const int64_t in_memory : {8, 1}) {
    for (const bool joined : {true, false}) {
      Ranks<RemoteTrainer> ranks = Adapters(in_memory);
      std::vector<double>& of_this = losses.emplace_back();
      for (const std::string id : {"a", "b", "c"}) ranks.Do(Create(id, id == "b" ? 2 : 4));
      for (int step = 0; step < 3; ++step) {
        const std::vector<TrainWork> works = {PassOf("a", {RowFrom(1)}), PassOf("b", {RowFrom(9), RowFrom(2)}),
                                              PassOf("c", {RowFrom(5)})};
        if (joined) {
          for (const TrainOutcome& outcome : ranks.RunJoined(works)) of_this.push_back(outcome.loss);
        } else {
          for (const TrainWork& work : works) of_this.push_back(ranks.Do(work).loss);
        }
        for (const std::string id : {"a", "c"}) of_this.push_back(ranks.Do(Unit(TrainAction::kStep, id)).grad_norm);
      }
      EXPECT_NEAR(of_this[1], of_this[11], 1e-5) << "b never steps";
      EXPECT_GT(of_this[0], of_this[10]);
      ranks.Do(Unit(TrainAction::kDrop, "a"));
      EXPECT_NE(ranks.Run(PassOf("a", {RowFrom(1)})).error.find("model 'a' is gone"), std::string::npos);
    }
  }
  for (const std::vector<double>& other : losses) {
    for (size_t i = 0; i < other.size(); ++i) EXPECT_NEAR(other[i] / losses[0][i], 1, 1e-4) << "number " << i;
  }
}

TEST_F(RemoteTrainersTest, KeysThatWouldChangeTheClientsLossesAreRefused) {
  Config config = Plain();
  config.mutable_loss()->set_label_smoothing(0.1);
  EXPECT_THROW(PrepareForFullTraining(config), Error);
  EXPECT_THROW(PrepareForRemoteTraining(config, {}), Error);
}

}  // namespace
}  // namespace trireme
