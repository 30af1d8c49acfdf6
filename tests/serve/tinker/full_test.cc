// A service where one model is trained in full: which requests it refuses, and which samplers may use the weights that
// there are.
#include "tests/serve/tinker/service_case.h"

namespace trireme::tinker {
namespace {

class FullServiceTest : public RemoteServiceTest {
 protected:
  FullServiceTest() : RemoteServiceTest({}, /*full=*/true) {}
  static std::string RefusalOf(const std::function<void()>& call) {
    try {
      call();
    } catch (const ApiError& error) {
      return error.message;
    }
    return "";
  }
  Json Step(const std::string& model, int64_t seq) {
    return service_.models.Step("me", {{"model_id", model}, {"seq_id", seq}});
  }
  std::string BaseSampler(int64_t seq) {
    return service_.samplers.Create(
        "me",
        {{"session_id", session_}, {"sampling_session_seq_id", seq}, {"base_model", "tiny"}})["sampling_session_id"];
  }
  Json Sample(const std::string& sampler, int64_t seq) {
    return Result(service_.samplers.Sample(
        "me", {{"sampling_session_id", sampler}, {"seq_id", seq}, {"prompt", {{"chunks", {{{"tokens", {1}}}}}}}}));
  }
  std::string SamplerOf(const std::string& model, int64_t seq, int64_t sampling_seq) {
    const Json saved = service_.models.SaveForSampler(
        "me", {{"model_id", model}, {"seq_id", seq}, {"sampling_session_seq_id", sampling_seq}});
    RunAll();
    return Result(saved)["sampling_session_id"];
  }
};

TEST_F(FullServiceTest, TrainsOneModelWhateverRankIsAskedFor) {
  EXPECT_NE(RefusalOf([&] { Create(0, {{"rank", 8}, {"train_mlp", false}}); }).find("train_mlp"), std::string::npos);
  const std::string model =
      Create(0, {{"rank", 64}, {"seed", 3}, {"train_unembed", true}})["model_id"];  // more than max_rank
  EXPECT_NE(RefusalOf([&] { Create(1); }).find("one model"), std::string::npos);
  EXPECT_EQ(service_.models.Info("me", {{"model_id", model}})["is_lora"], false);
  service_.models.Unload("me", {{"model_id", model}});
  EXPECT_EQ(RefusalOf([&] { Create(1); }), "");
}

TEST_F(FullServiceTest, ASamplerSamplesWhileItsWeightsAreThere) {
  const std::string base = BaseSampler(0), model = Model();
  RunAll();
  EXPECT_TRUE(Sample(base, 0).contains("sequences"));
  const std::string first = SamplerOf(model, 1, 1);
  EXPECT_TRUE(Sample(first, 0).contains("sequences"));
  Pass(model, 2);
  Step(model, 3);
  RunAll();
  EXPECT_NE(Sample(first, 1).value("error", "").find("weights have changed"), std::string::npos);
  EXPECT_NE(Sample(base, 1).value("error", "").find("weights have changed"), std::string::npos);
  EXPECT_NE(RefusalOf([&] { BaseSampler(9); }).find("weights have changed"), std::string::npos);
  EXPECT_TRUE(Sample(SamplerOf(model, 4, 2), 0).contains("sequences"));
  service_.models.Unload("me", {{"model_id", model}});
  RunAll();
  EXPECT_TRUE(Sample(BaseSampler(3), 0).contains("sequences"));  // the base is back
}

TEST_F(FullServiceTest, AStepThatFailsChangesNothing) {
  const std::string model = Model();
  const std::string sampler = SamplerOf(model, 1, 1);
  Step(model, 2);
  const auto task = service_.work.Take();
  ASSERT_TRUE(task);
  service_.work.Finish(*task, {.error = "no gradients", .users_fault = true});
  EXPECT_TRUE(Sample(sampler, 0).contains("sequences"));
}

TEST_F(FullServiceTest, AStepWaitsUntilNothingIsGenerated) {
  const std::string model = Model();
  RunAll();
  Pass(model, 1);
  Step(model, 2);
  EXPECT_FALSE(service_.work.NeedsIdle());
  const auto pass = service_.work.Take(/*idle=*/false);
  ASSERT_TRUE(pass);
  service_.work.Finish(*pass, {.logprobs = {{-1}}});
  EXPECT_TRUE(service_.work.NeedsIdle());
  EXPECT_FALSE(service_.work.Take(/*idle=*/false));
  EXPECT_TRUE(service_.work.Take(/*idle=*/true));
}

TEST_F(FullServiceTest, CheckpointsOfOtherKindsAreRefused) {
  const std::string model = Model();
  RunAll();
  const CheckpointPath lora{model, kTrainingKind, "lora"}, other{model, kTrainingKind, "other"},
      sampler{model, kSamplerKind, "s"};
  checkpoints_.Commit(checkpoints_.Aside("me", lora), "me", lora, {{"base_model", "tiny"}, {"lora_rank", 8}});
  checkpoints_.Commit(checkpoints_.Aside("me", other), "me", other, {{"base_model", "large"}, {"full", true}});
  checkpoints_.Commit(checkpoints_.Aside("me", sampler), "me", sampler, {{"base_model", "tiny"}, {"full", true}});
  int64_t seq = 1;
  for (const auto& [path, word] :
       {std::pair(lora, "LoRA adapter"), std::pair(other, "'large'"), std::pair(sampler, "save_state")}) {
    const Json loading = service_.models.Load("me", {{"model_id", model}, {"seq_id", seq++}, {"path", path.Text()}});
    EXPECT_TRUE(RunAll().empty());
    EXPECT_NE(Result(loading).value("error", "").find(word), std::string::npos) << Result(loading);
  }
}

TEST_F(RemoteServiceTest, AnAdapterDoesNotTakeAModelThatWasTrainedInFull) {
  const std::string model = Model();
  RunAll();
  const CheckpointPath full{model, kTrainingKind, "full"};
  checkpoints_.Commit(checkpoints_.Aside("me", full), "me", full,
                      {{"base_model", "tiny"}, {"lora_rank", 8}, {"full", true}});
  const Json loading = service_.models.Load("me", {{"model_id", model}, {"seq_id", 1}, {"path", full.Text()}});
  RunAll();
  EXPECT_NE(Result(loading).value("error", "").find("--train-full"), std::string::npos);
}

}  // namespace
}  // namespace trireme::tinker
