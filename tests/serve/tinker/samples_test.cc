// Samples of a service: a generator that is full, what is cancelled, and how long samplers stay open.
#include <algorithm>
#include <filesystem>

#include "tests/serve/tinker/service_case.h"

namespace trireme::tinker {
namespace {

class SamplesTest : public RemoteServiceTest {
 protected:
  std::string BaseSampler() {
    return service_.samplers.Create(
        "me",
        {{"session_id", session_}, {"sampling_session_seq_id", 999}, {"base_model", "tiny"}})["sampling_session_id"];
  }
  Json Saving(const std::string& model, int64_t seq, int64_t sampler_seq) {
    return service_.models.SaveForSampler(
        "me", {{"model_id", model}, {"seq_id", seq}, {"sampling_session_seq_id", sampler_seq}});
  }
  std::string SamplerOf(const std::string& model, int64_t seq, int64_t sampler_seq) {
    const Json saved = Saving(model, seq, sampler_seq);
    RunAll();
    return Result(saved)["sampling_session_id"];
  }
  Json Sample(const std::string& sampler, int64_t seq, const Json& more = Json::object()) {
    Json body = {{"sampling_session_id", sampler}, {"seq_id", seq}, {"prompt", {{"chunks", {{{"tokens", {1, 2}}}}}}}};
    body.update(more);
    return service_.samplers.Sample("me", body);
  }
  int64_t Unfinished() { return service_.Status("me")["totals"]["unfinished"]; }
  // How many units of an action are waiting; all units are done.
  int64_t RunAndCount(TrainAction action) { return std::ranges::count(RunAll(), -static_cast<int64_t>(action)); }
};

TEST_F(SamplesTest, AFullDoorIsA429AndLeavesNoFuture) {
  const std::string sampler = BaseSampler();
  samples_.full = true;
  EXPECT_EQ(StatusOf([&] { Sample(sampler, 0); }), 429);
  EXPECT_EQ(Unfinished(), 0);
  samples_.full = false;
  EXPECT_TRUE(Result(Sample(sampler, 0)).contains("sequences"));  // the same number, sent again
}

TEST_F(SamplesTest, SamplesThatWereTakenWaitForAFullDoor) {
  const std::string model = Model(), sampler = SamplerOf(model, 1, 0);
  const Json opening = Sample(sampler, 0), scored = Sample(sampler, 1, {{"prompt_logprobs", true}});
  samples_.full = true;
  RunAll();
  EXPECT_EQ(Poll(opening["request_id"]).status, 0);
  EXPECT_EQ(StatusOf([&] { Sample(sampler, 2); }), 429);
  service_.Tick();
  EXPECT_EQ(Poll(scored["request_id"]).status, 0);
  samples_.full = false;
  EXPECT_EQ(StatusOf([&] { Sample(sampler, 2); }), 429);  // those before it still wait
  service_.Tick();
  EXPECT_TRUE(Result(opening).contains("sequences"));
  EXPECT_EQ(Result(scored)["prompt_logprobs"], Json({nullptr, -1.0}));
  EXPECT_EQ(StatusOf([&] { Sample(sampler, 2); }), 200);
}

TEST_F(SamplesTest, LogProbabilitiesOfPromptsAndTrainingTakeTurns) {
  const std::string model = Model(), sampler = BaseSampler();
  RunAll();
  for (int64_t seq = 0; seq < 3; ++seq) Sample(sampler, seq, {{"prompt_logprobs", true}});  // of the prompt 1, 2
  for (int64_t seq = 1; seq <= 2; ++seq) Pass(model, seq, 7);
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{1, 7, 1, 7, 1}));
}

TEST_F(SamplesTest, ASampleHasAsManySequencesAsTheDoorTakes) {
  const std::string sampler = BaseSampler();
  EXPECT_EQ(StatusOf([&] { Sample(sampler, 0, {{"num_samples", 8}}); }), 200);
  EXPECT_EQ(StatusOf([&] { Sample(sampler, 1, {{"num_samples", 9}}); }), 400);
}

TEST_F(SamplesTest, WhatIsCancelledStops) {
  const std::string sampler = BaseSampler();
  samples_.holds = true;
  const Json first = Sample(sampler, 0), second = Sample(sampler, 1);
  ASSERT_EQ(samples_.orders.size(), 2U);
  service_.samplers.Cancel("you", {{"request_id", first["request_id"]}});
  EXPECT_FALSE(*samples_.orders[0].cancelled);
  service_.samplers.Cancel("me", {{"request_id", first["request_id"]}});
  EXPECT_TRUE(*samples_.orders[0].cancelled);
  EXPECT_EQ(Result(first)["error"], "was cancelled");
  EXPECT_FALSE(*samples_.orders[1].cancelled);
  service_.sessions.Finish("me", session_);
  EXPECT_TRUE(*samples_.orders[1].cancelled);
  EXPECT_EQ(Result(second)["error"], "the session has ended");
  EXPECT_EQ(Unfinished(), 0);
}

TEST_F(SamplesTest, WhatIsCancelledWhileItWaitsIsNotGenerated) {
  const std::string model = Model(), sampler = SamplerOf(model, 1, 0);
  const Json sample = Sample(sampler, 0);
  service_.samplers.Cancel("me", {{"request_id", sample["request_id"]}});
  RunAll();
  EXPECT_TRUE(samples_.orders.empty());
}

TEST_F(SamplesTest, ASessionThatEndedGetsNoSampler) {
  const std::string model = Model();
  RunAll();
  const Json saving = Saving(model, 1, 0);
  const auto task = service_.work.Take();
  ASSERT_TRUE(task);
  service_.sessions.Finish("me", session_);
  service_.work.Finish(*task, {});
  EXPECT_EQ(Result(saving)["error"], "the session has ended");
  EXPECT_TRUE(service_.SessionInfo("me", session_)["sampler_ids"].empty());
  EXPECT_FALSE(std::filesystem::exists(task->work.directory));
}

TEST_F(SamplesTest, TheSamplersUsedLongestAgoAreClosedAndOpenAgain) {
  const std::string model = Model();
  std::vector<std::string> samplers;
  for (int64_t i = 0; i < 16; ++i) {
    samplers.push_back(SamplerOf(model, i + 1, i));
    Sample(samplers.back(), 0);
    EXPECT_EQ(RunAndCount(TrainAction::kDropSampler), 0);
  }
  Sample(samplers[0], 1);  // now 1 is the oldest
  samples_.holds = true;
  Sample(samplers[1], 1);  // but it is busy
  samples_.holds = false;
  const std::string last = SamplerOf(model, 17, 16);
  Sample(last, 0);
  EXPECT_EQ(RunAndCount(TrainAction::kDropSampler), 1);
  for (const size_t open : {0, 1, 3}) {
    Sample(samplers[open], 2);
    EXPECT_TRUE(RunAll().empty()) << open;
  }
  const Json again = Sample(samplers[2], 2);
  EXPECT_EQ(RunAndCount(TrainAction::kOpenSampler), 1);
  EXPECT_TRUE(Result(again).contains("sequences"));
}

TEST_F(SamplesTest, ASamplerUnderTheSameNumberTakesThePlaceOfTheOld) {
  const std::string model = Model(), sampler = SamplerOf(model, 1, 0);
  Sample(sampler, 0);
  RunAll();
  samples_.holds = true;
  const Json running = Sample(sampler, 1);
  const Json saved = Saving(model, 2, 0);
  EXPECT_EQ(RunAndCount(TrainAction::kDropSampler), 1);
  EXPECT_EQ(Result(saved)["sampling_session_id"], sampler);
  EXPECT_EQ(Result(running)["category"], "server");
  EXPECT_TRUE(*samples_.orders.back().cancelled);
}

TEST_F(SamplesTest, AnAdapterThatOpensTooLateIsDropped) {
  const std::string model = Model(), sampler = SamplerOf(model, 1, 0);
  Sample(sampler, 0);
  const auto opening = service_.work.Take();
  ASSERT_TRUE(opening && opening->work.action == TrainAction::kOpenSampler);
  SamplerOf(model, 2, 0);
  service_.work.Finish(*opening, {.sampler = 7});
  const auto drop = service_.work.Take();
  ASSERT_TRUE(drop && drop->work.action == TrainAction::kDropSampler);
  EXPECT_EQ(drop->work.sampler, 7);
}

}  // namespace
}  // namespace trireme::tinker
