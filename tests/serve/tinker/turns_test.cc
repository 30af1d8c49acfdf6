// Whose work a service gives out next: quotas of owners, turns of models, passes that are joined.
#include "tests/serve/tinker/service_case.h"

namespace trireme::tinker {
namespace {

class TenantTest : public RemoteServiceTest {
 protected:
  TenantTest() : RemoteServiceTest({.models = 2, .tokens_per_second = 1, .queued = 4}) {}
};

TEST_F(TenantTest, AnOwnerHasSoManyModels) {
  Create(0);
  Create(1);
  EXPECT_EQ(StatusOf([&] { Create(2); }), 400);
  const std::string session = service_.sessions.Create("you", Json::object())["session_id"];
  EXPECT_EQ(
      StatusOf([&] {
        service_.models.Create(
            "you",
            {{"session_id", session}, {"model_seq_id", 0}, {"base_model", "tiny"}, {"lora_config", {{"rank", 8}}}});
      }),
      200);
}

TEST_F(TenantTest, AnOwnerHasSoManyRequestsButNeverWaitsForItself) {
  const std::string model = Model();
  RunAll();
  for (const int64_t seq : {2, 3, 4, 5}) Pass(model, seq);
  EXPECT_EQ(StatusOf([&] { Pass(model, 6); }), 429);
  Pass(model, 1);  // the one that the others wait for
  RunAll();
  EXPECT_EQ(StatusOf([&] { Pass(model, 6); }), 200);
}

TEST_F(TenantTest, AnOwnerThatUsedItsTokensWaitsAndIsTold) {
  const std::string model = Model();
  RunAll();
  int64_t seq = 1;
  for (; seq <= 10; ++seq) {
    Pass(model, seq, seq);
    ASSERT_EQ(RunAll().size(), 1U);
  }
  const Json waits = Pass(model, seq);
  EXPECT_TRUE(RunAll().empty());
  EXPECT_FALSE(service_.work.HasWork());  // or samples would wait for it in a pipeline
  Poll(waits["request_id"]);
  EXPECT_EQ(
      StatusOf([&] {
        const std::string sampler = service_.samplers.Create(
            "me",
            {{"session_id", session_}, {"sampling_session_seq_id", 0}, {"base_model", "tiny"}})["sampling_session_id"];
        service_.samplers.Sample(
            "me", {{"sampling_session_id", sampler}, {"seq_id", 0}, {"prompt", {{"chunks", {{{"tokens", {1}}}}}}}});
      }),
      429);
  now_ += 0.5;
  EXPECT_FALSE(RunAll().empty());  // what is paid back is enough to begin
  now_ += 100;
  Pass(model, 12);
  RunAll();
  EXPECT_TRUE(Result(waits).contains("metrics"));
}

TEST_F(TenantTest, APollThatWaitsForTokensSaysSo) {
  const std::string model = Model();
  RunAll();
  Json long_pass = {{"data", Json::array()}, {"loss_fn", "cross_entropy"}};
  for (int i = 0; i < 5; ++i) {
    long_pass["data"].push_back({{"model_input", {{"chunks", {{{"tokens", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}}}}}},
                                 {"loss_fn_inputs",
                                  {{"target_tokens", {{"data", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}, {"dtype", "int64"}}},
                                   {"weights", {{"data", {1., 1., 1., 1., 1., 1., 1., 1., 1., 1.}}}}}}});
  }
  service_.models.Pass("me", {{"model_id", model}, {"seq_id", 1}, {"forward_backward_input", long_pass}},
                       "forward_backward_input");
  RunAll();  // 50 tokens of 10
  const Json waits = Pass(model, 2);
  Poll(waits["request_id"]);
  now_ += 30.5;
  EXPECT_TRUE(RunAll().empty());
  service_.Tick();
  const Json told = Json::parse(held_->answers.at(0).body);
  EXPECT_EQ(told["queue_state"], "paused_rate_limit");
  EXPECT_NE(told["queue_state_reason"].get<std::string>().find("tokens per second"), std::string::npos);
  now_ += 10;
  EXPECT_EQ(RunAll().size(), 1U);
}

TEST_F(RemoteServiceTest, ModelsTakeTurns) {
  const std::string a = Create(0)["model_id"], b = Create(1)["model_id"];
  RunAll();
  for (int64_t i = 1; i <= 3; ++i) Pass(a, i, 10 + i);
  for (int64_t i = 1; i <= 3; ++i) Pass(b, i, 20 + i);
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{11, 21, 12, 22, 13, 23}));
}

std::vector<int64_t> FirstTokens(const std::vector<Task>& tasks) {
  std::vector<int64_t> tokens;
  for (const Task& task : tasks) {
    tokens.push_back(task.work.action == TrainAction::kPass ? task.work.rows[0].tokens[0]
                                                            : -static_cast<int64_t>(task.work.action));
  }
  return tokens;
}

TEST_F(RemoteServiceTest, PassesThatWaitAreJoinedAndNothingElse) {
  const std::string a = Create(0)["model_id"], b = Create(1)["model_id"], c = Create(2)["model_id"];
  RunAll();
  Pass(a, 1, 11);
  EXPECT_EQ(FirstTokens(service_.work.TakeJoined()), (std::vector<int64_t>{11}));  // alone: nobody is waited for
  EXPECT_TRUE(service_.work.TakeJoined().empty());
  Pass(a, 2, 12);
  service_.models.Step("me", {{"model_id", a}, {"seq_id", 3}});
  Pass(a, 4, 14);
  Pass(b, 1, 21);
  Pass(b, 2, 22);
  service_.models.Step("me", {{"model_id", c}, {"seq_id", 1}});
  Pass(c, 2, 32);
  const int64_t step = -static_cast<int64_t>(TrainAction::kStep);
  EXPECT_EQ(FirstTokens(service_.work.TakeJoined()), (std::vector<int64_t>{step}));  // c's: its pass can then join
  EXPECT_EQ(FirstTokens(service_.work.TakeJoined()),
            (std::vector<int64_t>{21, 12, 32}));  // of each model one; b has had the least
  EXPECT_EQ(FirstTokens(service_.work.TakeJoined()), (std::vector<int64_t>{step}));  // a's
  EXPECT_EQ(FirstTokens(service_.work.TakeJoined()), (std::vector<int64_t>{22, 14}));
  EXPECT_TRUE(service_.work.TakeJoined().empty());
}

TEST_F(RemoteServiceTest, APassWaitsBrieflyForThoseWhoCameBackAtOnce) {
  const std::string a = Create(0)["model_id"], b = Create(1)["model_id"];
  RunAll();
  const auto run = [&] {  // a pass of a second; how many it is of
    const std::vector<Task> tasks = service_.work.TakeJoined();
    now_ += 1;
    for (const Task& task : tasks) service_.work.Finish(task, {.logprobs = {{-1}}});
    return tasks.size();
  };
  for (int64_t seq = 1; seq <= 2; ++seq) {
    Pass(a, seq);
    Pass(b, seq);
    EXPECT_EQ(service_.work.Patience(), 0);
    EXPECT_EQ(run(), 2U);
    now_ += 0.01;
  }
  Pass(a, 3);  // b was as quick as a, the last time
  EXPECT_NEAR(service_.work.Patience(), 0.04, 1e-9);
  EXPECT_TRUE(service_.work.TakeJoined().empty());
  Pass(b, 3);
  EXPECT_EQ(service_.work.Patience(), 0);
  EXPECT_EQ(run(), 2U);
  Pass(a, 4);
  now_ += 0.06;  // b is late
  EXPECT_EQ(run(), 1U);
  Pass(a, 5);
  EXPECT_EQ(run(), 1U);  // and is waited for no more
  Pass(a, 6);
  Pass(b, 4);
  EXPECT_EQ(run(), 2U);
  Pass(a, 7);
  EXPECT_EQ(run(), 1U);  // not even when it is back: it took its time
}

TEST_F(RemoteServiceTest, StepsGoBeforePassesButNotForEver) {
  const std::string a = Create(0)["model_id"], b = Create(1)["model_id"];
  RunAll();
  Pass(a, 1, 11);
  for (int64_t seq = 1; seq <= 3; ++seq) service_.models.Step("me", {{"model_id", b}, {"seq_id", seq}});
  const int64_t step = -static_cast<int64_t>(TrainAction::kStep);
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{step, 11, step, step}));
}

TEST_F(RemoteServiceTest, JoinedPassesHaveALimitOfTokensAndTheOneLeftOutIsNext) {
  RemoteService service(
      {.model_name = "tiny", .model_directory = "/models/tiny", .limits = {100, 16}, .joined_tokens = 2}, checkpoints_,
      [] { return 0.0; });
  const std::string session = service.sessions.Create("me", Json::object())["session_id"];
  std::vector<std::string> models;
  for (int64_t i = 0; i < 3; ++i) {
    models.push_back(service.models.Create("me", {{"session_id", session},
                                                  {"model_seq_id", i},
                                                  {"base_model", "tiny"},
                                                  {"lora_config", {{"rank", 8}}}})["model_id"]);
    EXPECT_EQ(service.work.TakeJoined().size(), 1U);
  }
  for (int64_t seq = 1; seq <= 2; ++seq) {
    for (int64_t i = 0; i < 3; ++i) {
      const Json datum = {
          {"model_input", {{"chunks", {{{"tokens", {10 * i + seq}}}}}}},
          {"loss_fn_inputs", {{"target_tokens", {{"data", {2}}, {"dtype", "int64"}}}, {"weights", {{"data", {1.0}}}}}}};
      service.models.Pass("me",
                          {{"model_id", models[static_cast<size_t>(i)]},
                           {"seq_id", seq},
                           {"forward_backward_input", {{"data", {datum}}, {"loss_fn", "cross_entropy"}}}},
                          "forward_backward_input");
    }
  }
  EXPECT_EQ(FirstTokens(service.work.TakeJoined()), (std::vector<int64_t>{1, 11}));
  EXPECT_EQ(FirstTokens(service.work.TakeJoined()), (std::vector<int64_t>{21, 2}));
  EXPECT_EQ(FirstTokens(service.work.TakeJoined()), (std::vector<int64_t>{12, 22}));
}

TEST(TrainWork, JoinedUnitsTravelAsTheyAre) {
  const TrainWork one{.model = "a",
                      .rows = {{.tokens = {1, 2}, .targets = {2, 3}, .inputs = {.weights = {1, 0.5F}}}},
                      .backward = true};
  TrainWork other = one;
  other.model = "b";
  other.loss = "ppo";
  const std::vector<TrainWork> found = WorksOf(BytesOf({&one, &other}));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].Bytes(), one.Bytes());
  EXPECT_EQ(found[1].Bytes(), other.Bytes());
  EXPECT_EQ(found[0].tokens(), 2);
  EXPECT_FALSE(MayJoin(one, other));  // one pass, two passes
  other.loss = "cross_entropy";
  EXPECT_TRUE(MayJoin(one, other));
  other.backward = false;
  EXPECT_FALSE(MayJoin(one, other));
}

}  // namespace
}  // namespace trireme::tinker
