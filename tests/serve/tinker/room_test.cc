// The protocol without a model: order, doubles, gaps, owners, checkpoints, polls.
#include "serve/tinker/room.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "core/base/error.h"
#include "core/io/atomic_file.h"

namespace trireme::tinker {
namespace {

namespace fs = std::filesystem;

class FakeReply : public HttpReply {
 public:
  void Send(HttpAnswer answer) override { answers.push_back(std::move(answer)); }
  void StartEvents(std::map<std::string, std::string>) override {}
  void Event(std::string) override {}
  void EndEvents() override {}
  bool gone() const override { return false; }
  std::vector<HttpAnswer> answers;
};

class FakeSamples : public SampleDoor {
 public:
  void Submit(SampleOrder order, std::function<void(SampleResult)> done) override {
    orders.push_back(order);
    done({.sequences = {{.tokens = {5, 2}, .logprobs = {-0.5F, -0.25F}, .stopped = true}}});
  }
  std::vector<SampleOrder> orders;
};

class RoomTest : public ::testing::Test {
 protected:
  explicit RoomTest(const QuotaLimits& quota = {})
      : directory_(fs::path(::testing::TempDir()) / ("room-" + std::to_string(::getpid()) + "-" +
                                                     ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        checkpoints_(directory_, [this] { return unix_seconds_; }),
        room_({.model_name = "tiny", .model_directory = "/models/tiny", .limits = {100, 16}, .max_rank = 16, .max_models = 3, .quota = quota},
              checkpoints_, [this] { return now_; }) {
    room_.Connect(&samples_, [] {});
    session_ = room_.CreateSession("me", Json::object())["session_id"];
  }
  ~RoomTest() override { fs::remove_all(directory_); }

  Json Create(int64_t seq, const Json& lora = {{"rank", 8}}) {
    return room_.CreateModel("me", {{"session_id", session_}, {"model_seq_id", seq}, {"base_model", "tiny"}, {"lora_config", lora}});
  }
  std::string Model() { return Create(0)["model_id"]; }
  Json Pass(const std::string& model, int64_t seq, int64_t token = 1) {
    const Json datum = {{"model_input", {{"chunks", {{{"tokens", {token}}}}}}},
                        {"loss_fn_inputs", {{"target_tokens", {{"data", {2}}, {"dtype", "int64"}}}, {"weights", {{"data", {1.0}}}}}}};
    return room_.Pass("me", {{"model_id", model}, {"seq_id", seq}, {"forward_backward_input", {{"data", {datum}}, {"loss_fn", "cross_entropy"}}}},
                      "forward_backward_input");
  }
  // Runs all work that is ready; the tokens and actions in order.
  std::vector<int64_t> RunAll() {
    std::vector<int64_t> done;
    while (auto task = room_.Take()) {
      const bool pass = task->work.action == TrainAction::kPass;
      done.push_back(pass ? task->work.rows[0].tokens[0] : -static_cast<int64_t>(task->work.action));
      if (task->work.action == TrainAction::kSave) WriteAtomicFile(fs::path(task->work.directory) / "adapter_config.json", "{}");
      TrainOutcome outcome{.loss = 1, .grad_norm = 2, .step = 1, .sampler = 4};
      if (pass) outcome.logprobs.assign(task->work.rows.size(), std::vector<float>(task->work.rows[0].targets.size(), -1));
      room_.Finish(*task, outcome);
    }
    return done;
  }
  HttpAnswer Poll(const std::string& id, const std::string& owner = "me") {
    auto reply = std::make_shared<FakeReply>();
    room_.Retrieve(owner, {{"request_id", id}}, false, reply);
    held_ = reply;
    return reply->answers.empty() ? HttpAnswer{.status = 0} : reply->answers.front();
  }
  Json Result(const Json& future) { return Json::parse(Poll(future["request_id"]).body); }

  double now_ = 100;
  int64_t unix_seconds_ = 3600;
  const fs::path directory_;
  const Checkpoints checkpoints_;
  FakeSamples samples_;
  Room room_;
  std::string session_;
  std::shared_ptr<FakeReply> held_;
};

TEST_F(RoomTest, WorkIsDoneInTheOrderOfNumbersNotOfArrival) {
  const std::string model = Model();
  Pass(model, 2, 12);
  Pass(model, 3, 13);
  room_.Step("me", {{"model_id", model}, {"seq_id", 4}});
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{0}));  // kCreate alone: 1 is missing
  Pass(model, 1, 11);
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{11, 12, 13, -2}));
}

TEST_F(RoomTest, TheSameNumberIsTheSameRequest) {
  const std::string model = Model();
  EXPECT_EQ(Create(0)["request_id"], Create(0)["request_id"]);
  const Json first = Pass(model, 1), second = Pass(model, 1);
  EXPECT_EQ(first["request_id"], second["request_id"]);
  EXPECT_EQ(RunAll().size(), 2U);
  EXPECT_EQ(Pass(model, 1)["request_id"], first["request_id"]);
  EXPECT_TRUE(RunAll().empty());
  EXPECT_EQ(Result(first)["metrics"]["loss:sum"], 1.0);
  EXPECT_EQ(Result(first)["loss_fn_outputs"][0]["logprobs"]["data"].size(), 1U);
}

TEST_F(RoomTest, WhatIsRefusedKeepsItsPlace) {
  const std::string model = Model();
  const Json bad = Pass(model, 1, 1000), good = Pass(model, 2, 5);
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(Result(bad)["category"], "user");
  EXPECT_NE(Result(bad)["error"].get<std::string>().find("token 1000"), std::string::npos);
  EXPECT_TRUE(Result(good).contains("metrics"));
}

TEST_F(RoomTest, AGapIsGivenUpInTime) {
  const std::string model = Model();
  RunAll();
  const Json late = Pass(model, 2);
  now_ += 59;
  room_.Tick();
  EXPECT_EQ(Poll(late["request_id"]).status, 0);
  now_ += 2;
  room_.Tick();
  EXPECT_EQ(Result(late)["category"], "server");
  Pass(model, 3, 7);
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{7}));
}

TEST_F(RoomTest, PollsAreHeldForHalfAMinute) {
  const std::string model = Model();
  const Json future = Pass(model, 1);
  EXPECT_EQ(Poll(future["request_id"]).status, 0);
  now_ += 31;
  room_.Tick();
  ASSERT_EQ(held_->answers.size(), 1U);
  EXPECT_EQ(held_->answers[0].status, 408);
  EXPECT_EQ(Json::parse(held_->answers[0].body)["type"], "try_again");
  Poll(future["request_id"]);
  RunAll();
  ASSERT_EQ(held_->answers.size(), 1U);
  EXPECT_EQ(held_->answers[0].status, 200);
  EXPECT_EQ(Poll(future["request_id"]).status, 200);  // once more: an answer may have been lost
  now_ += 601;
  room_.Tick();
  EXPECT_EQ(Poll(future["request_id"]).status, 410);
}

TEST_F(RoomTest, OthersFindNothing) {
  const std::string model = Model();
  const Json future = Pass(model, 1);
  EXPECT_EQ(Poll(future["request_id"], "you").status, 404);
  const auto status = [](const auto& call) {
    try {
      call();
    } catch (const ApiError& error) {
      return error.status;
    }
    return 200;
  };
  EXPECT_EQ(status([&] { room_.Step("you", {{"model_id", model}, {"seq_id", 9}}); }), 404);
  EXPECT_EQ(status([&] { room_.GetInfo("you", {{"model_id", model}}); }), 404);
  EXPECT_EQ(status([&] { room_.Heartbeat("you", {{"session_id", session_}}); }), 404);
  RunAll();
  room_.Save("me", {{"model_id", model}, {"seq_id", 2}, {"path", "a"}});
  RunAll();
  const std::string path = "tinker://" + model + "/weights/a";
  EXPECT_EQ(status([&] { room_.WeightsInfo("me", {{"tinker_path", path}}); }), 200);
  EXPECT_EQ(status([&] { room_.WeightsInfo("you", {{"tinker_path", path}}); }), 404);
  EXPECT_EQ(status([&] { room_.WeightsInfo("me", {{"tinker_path", "tinker://../weights/a"}}); }), 400);
  EXPECT_EQ(status([&] { room_.WeightsInfo("me", {{"tinker_path", "tinker://x/../a"}}); }), 400);
}

TEST_F(RoomTest, SavesLiveAsLongAsAsked) {
  const std::string model = Model();
  const Json brief = room_.Save("me", {{"model_id", model}, {"seq_id", 1}, {"path", "brief"}, {"ttl_seconds", 3600}, {"user_metadata", {{"a", 1}}}});
  room_.SaveForSampler("me", {{"model_id", model}, {"seq_id", 2}, {"path", "brief"}, {"ttl_seconds", 7200}});
  room_.Save("me", {{"model_id", model}, {"seq_id", 3}, {"path", "kept"}});
  const Json bad = room_.Save("me", {{"model_id", model}, {"seq_id", 4}, {"path", "bad"}, {"ttl_seconds", 60}});
  RunAll();
  EXPECT_EQ(Result(bad)["category"], "user");
  const auto listed = [&] { return room_.CheckpointList("me", model, 100, 0)["checkpoints"]; };
  const auto of = [&](const std::string& id) {
    for (const Json& one : listed()) {
      if (one["checkpoint_id"] == id) return one;
    }
    return Json();
  };
  EXPECT_EQ(of("weights/brief")["expires_at"], "1970-01-01T02:00:00Z");
  EXPECT_EQ(of("weights/brief")["user_metadata"]["a"], 1);
  EXPECT_TRUE(of("weights/kept")["expires_at"].is_null());
  unix_seconds_ += 3599;
  EXPECT_EQ(listed().size(), 3U);
  unix_seconds_ += 1;
  EXPECT_THROW(room_.WeightsInfo("me", {{"tinker_path", Result(brief)["path"]}}), ApiError);
  EXPECT_EQ(listed().size(), 2U);
  EXPECT_FALSE(fs::exists(directory_ / "me" / model / "weights" / "brief"));
  unix_seconds_ += 1 << 30;
  EXPECT_EQ(listed().size(), 1U);
}

TEST_F(RoomTest, SavesHaveTheirNameOnceAndOnlyWhole) {
  const std::string model = Model();
  const Json save = room_.Save("me", {{"model_id", model}, {"seq_id", 1}, {"path", "one"}});
  const Json again = room_.Save("me", {{"model_id", model}, {"seq_id", 2}, {"path", "one"}});
  const Json over = room_.Save("me", {{"model_id", model}, {"seq_id", 3}, {"path", "one"}, {"overwrite", true}});
  const Json bad = room_.Save("me", {{"model_id", model}, {"seq_id", 4}, {"path", "../one"}});
  const Json sampler = room_.SaveForSampler("me", {{"model_id", model}, {"seq_id", 5}, {"path", "one"}});
  RunAll();
  EXPECT_EQ(Result(save)["path"], "tinker://" + model + "/weights/one");
  EXPECT_EQ(Result(again)["category"], "user");
  EXPECT_TRUE(Result(over).contains("path"));
  EXPECT_EQ(Result(bad)["category"], "user");
  EXPECT_EQ(Result(sampler)["path"], "tinker://" + model + "/sampler_weights/one");
  EXPECT_EQ(room_.CheckpointList("me", model, 100, 0)["checkpoints"].size(), 2U);
  EXPECT_EQ(room_.TrainingRuns("me", 20, 0)["training_runs"][0]["last_checkpoint"]["checkpoint_id"], "weights/one");
  EXPECT_EQ(room_.WeightsInfo("me", {{"tinker_path", Result(save)["path"]}})["lora_rank"], 8);
  const Json other_rank = room_.CreateModel("me", {{"session_id", session_}, {"model_seq_id", 1}, {"base_model", "tiny"}, {"lora_config", {{"rank", 4}}}});
  const Json load = room_.Load("me", {{"model_id", other_rank["model_id"]}, {"seq_id", 1}, {"path", Result(save)["path"]}, {"optimizer", true}});
  const Json own = room_.Load("me", {{"model_id", model}, {"seq_id", 6}, {"path", Result(save)["path"]}, {"optimizer", true}});
  RunAll();
  EXPECT_EQ(Result(load)["category"], "user");
  EXPECT_EQ(Result(own)["type"], "load_weights");
}

TEST_F(RoomTest, CreationIsCheckedBeforeAnythingIsQueued) {
  EXPECT_THROW(Create(0, {{"rank", 17}}), ApiError);
  EXPECT_THROW(Create(0, {{"rank", 8}, {"train_attn", false}, {"train_mlp", false}}), ApiError);
  EXPECT_THROW(Create(0, {{"ranks", 8}}), ApiError);
  EXPECT_THROW(room_.CreateModel("me", {{"session_id", session_}, {"model_seq_id", 0}, {"base_model", "other"}, {"lora_config", Json::object()}}), ApiError);
  EXPECT_EQ(Create(0, {{"rank", 16}, {"train_unembed", true}})["model_id"], session_ + ":train:0");
  Create(1);
  Create(2);
  EXPECT_THROW(Create(3), ApiError);  // three at once
}

TEST_F(RoomTest, ASilentSessionEndsWithItsModels) {
  const std::string model = Model();
  RunAll();
  now_ += 1700;
  room_.Heartbeat("me", {{"session_id", session_}});
  now_ += 1700;
  room_.Tick();
  const Json waiting = Pass(model, 2);  // 1 is missing
  now_ += 1801;
  room_.Tick();
  EXPECT_EQ(Result(waiting)["category"], "server");
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{-static_cast<int64_t>(TrainAction::kDrop)}));
  EXPECT_THROW(Pass(model, 3), ApiError);
}

TEST_F(RoomTest, SamplersOpenOnceAndAnswerDoublesOnce) {
  const std::string model = Model();
  const Json saved = room_.SaveForSampler("me", {{"model_id", model}, {"seq_id", 1}, {"sampling_session_seq_id", 0}});
  RunAll();
  const std::string sampler = Result(saved)["sampling_session_id"];
  const Json body = {{"sampling_session_id", sampler}, {"seq_id", 0}, {"prompt", {{"chunks", {{{"tokens", {1, 2, 3}}}}}}}, {"num_samples", 1}, {"prompt_logprobs", true}};
  const Json sample = room_.Sample("me", body);
  EXPECT_EQ(sample["sample_sequence_ids"].size(), 1U);
  EXPECT_EQ(room_.Sample("me", body)["request_id"], sample["request_id"]);
  RunAll();
  ASSERT_EQ(samples_.orders.size(), 1U);
  EXPECT_EQ(samples_.orders[0].adapter, 4);
  const Json result = Result(sample);
  EXPECT_EQ(result["sequences"][0]["tokens"], Json({5, 2}));
  EXPECT_EQ(result["prompt_logprobs"], Json({nullptr, -1.0, -1.0}));
  EXPECT_EQ(room_.SamplerInfo("me", sampler)["base_model"], "tiny");
}

TEST_F(RoomTest, SamplesAreWaitedForTogether) {
  const std::string sampler = room_.CreateSampler("me", {{"session_id", session_}, {"sampling_session_seq_id", 0}, {"base_model", "tiny"}})["sampling_session_id"];
  const auto poll = [&](int64_t cursor, const Json& retrieved = Json::array(), int64_t clone = 0) {
    held_ = std::make_shared<FakeReply>();
    room_.RetrieveMany("me", {{"target", {{"type", "sampling_session"}, {"sampling_session_id", sampler}, {"cloned_sampler_id", clone}}},
                              {"prev_cursor", cursor}, {"retrieved_request_ids", retrieved}}, held_);
    return held_->answers.empty() ? Json() : Json::parse(held_->answers[0].body);
  };
  const auto sample = [&](int64_t seq) {
    return room_.Sample("me", {{"sampling_session_id", sampler}, {"seq_id", seq}, {"prompt", {{"chunks", {{{"tokens", {1}}}}}}}})["request_id"];
  };
  EXPECT_TRUE(poll(0).is_null());  // held
  const std::shared_ptr<FakeReply> first_poll = held_;
  const Json first = sample(0);
  ASSERT_EQ(first_poll->answers.size(), 1U);
  const Json done = Json::parse(first_poll->answers[0].body);
  EXPECT_EQ(done["completions"][0]["request_id"], first);
  EXPECT_EQ(done["completions"][0]["state"], "finished");
  EXPECT_GT(done["completions"][0]["response_payload_uncompressed_size"].get<int64_t>(), 10);
  const Json second = sample(1), other = sample(7'000'000'000);
  EXPECT_EQ(poll(0)["completions"].size(), 2U);  // the first answer was lost
  EXPECT_EQ(poll(done["cursor"])["completions"][0]["request_id"], second);
  EXPECT_EQ(poll(0, Json::array(), 7)["completions"][0]["request_id"], other);
  EXPECT_EQ(Poll(first).status, 200);
  EXPECT_TRUE(poll(2, Json::array({first})).is_null());
  EXPECT_EQ(Poll(first).status, 410);  // it was retrieved
  poll(2);
  now_ += 31;
  room_.Tick();
  EXPECT_EQ(Json::parse(held_->answers.at(0).body)["completions"].size(), 0U);
  poll(2);
  room_.Close();
  EXPECT_EQ(held_->answers.at(0).status, 408);
}

TEST_F(RoomTest, ARestartPutsInOrderWhatAKillLeft) {
  const std::string model = Model();
  room_.Save("me", {{"model_id", model}, {"seq_id", 1}, {"path", "kept"}});
  room_.Save("me", {{"model_id", model}, {"seq_id", 2}, {"path", "replaced"}});
  RunAll();
  const fs::path kind = directory_ / "me" / model / "weights", copy = directory_.string() + "-copy";
  fs::rename(kind / "replaced", kind / ".before-replaced");  // killed between the two names of an overwrite
  fs::create_directories(kind / ".aside-0123");              // killed while it was written, or removed
  WriteAtomicFile(kind / ".aside-0123" / "adapter_config.json", "{}");
  fs::copy(kind / "kept", kind / ".before-kept", fs::copy_options::recursive);  // killed after an overwrite
  EXPECT_EQ(checkpoints_.All("me").size(), 1U);
  fs::copy(directory_, copy, fs::copy_options::recursive);  // the lock of this one is held
  {
    const Checkpoints again(copy, [this] { return unix_seconds_; });
    EXPECT_EQ(again.All("me").size(), 2U);
    EXPECT_EQ(again.OwnerOf("key"), checkpoints_.OwnerOf("key"));
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(copy / "me" / model / "weights")) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"kept", "replaced"}));
  fs::remove_all(copy);
}

TEST_F(RoomTest, TheStatusIsOfOneOwnerItsSumsOfAll) {
  const std::string model = Model();
  RunAll();
  for (int64_t seq = 1; seq <= 30; ++seq) Pass(model, seq);
  RunAll();
  room_.Step("me", {{"model_id", model}, {"seq_id", 31}});
  RunAll();
  Pass(model, 33);  // 32 is missing
  room_.CreateSession("you", {{"display_name", "nightly"}});
  const Json mine = room_.Status("me"), yours = room_.Status("you"), all = room_.Status(std::nullopt);
  ASSERT_EQ(mine["models"].size(), 1U);
  EXPECT_EQ(mine["models"][0]["queued"], 1);
  EXPECT_EQ(mine["models"][0]["steps"], 1);
  EXPECT_EQ(mine["models"][0]["tokens"], 30);
  EXPECT_EQ(mine["models"][0]["tokens_per_second"], 2.0);
  EXPECT_EQ(mine["sessions"][0]["models"], 1);
  EXPECT_EQ(yours["models"].size(), 0U);
  EXPECT_EQ(yours["sessions"][0]["display_name"], "nightly");
  EXPECT_EQ(all["sessions"].size(), 2U);
  EXPECT_EQ(yours["totals"], all["totals"]);
  EXPECT_EQ(all["totals"]["unfinished"], 1);
  now_ += 150;
  EXPECT_EQ(room_.Status("me")["models"][0]["tokens_per_second"], 0.0);
}

TEST_F(RoomTest, OneServerHasTheDirectory) { EXPECT_THROW(Checkpoints{directory_}, Error); }

class TenantTest : public RoomTest {
 protected:
  TenantTest() : RoomTest({.models = 2, .tokens_per_second = 1, .queued = 4}) {}
  static int StatusOf(const std::function<void()>& call) {
    try {
      call();
    } catch (const ApiError& error) {
      return error.status;
    }
    return 200;
  }
};

TEST_F(TenantTest, AnOwnerHasSoManyModels) {
  Create(0);
  Create(1);
  EXPECT_EQ(StatusOf([&] { Create(2); }), 400);
  const std::string session = room_.CreateSession("you", Json::object())["session_id"];
  EXPECT_EQ(StatusOf([&] { room_.CreateModel("you", {{"session_id", session}, {"model_seq_id", 0}, {"base_model", "tiny"}, {"lora_config", {{"rank", 8}}}}); }), 200);
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
  EXPECT_FALSE(room_.HasWork());  // or samples would wait for it in a pipeline
  Poll(waits["request_id"]);
  EXPECT_EQ(StatusOf([&] {
              const std::string sampler = room_.CreateSampler("me", {{"session_id", session_}, {"sampling_session_seq_id", 0}, {"base_model", "tiny"}})["sampling_session_id"];
              room_.Sample("me", {{"sampling_session_id", sampler}, {"seq_id", 0}, {"prompt", {{"chunks", {{{"tokens", {1}}}}}}}});
            }), 429);
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
                                 {"loss_fn_inputs", {{"target_tokens", {{"data", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}, {"dtype", "int64"}}}, {"weights", {{"data", {1., 1., 1., 1., 1., 1., 1., 1., 1., 1.}}}}}}});
  }
  room_.Pass("me", {{"model_id", model}, {"seq_id", 1}, {"forward_backward_input", long_pass}}, "forward_backward_input");
  RunAll();  // 50 tokens of 10
  const Json waits = Pass(model, 2);
  Poll(waits["request_id"]);
  now_ += 30.5;
  EXPECT_TRUE(RunAll().empty());
  room_.Tick();
  const Json told = Json::parse(held_->answers.at(0).body);
  EXPECT_EQ(told["queue_state"], "paused_rate_limit");
  EXPECT_NE(told["queue_state_reason"].get<std::string>().find("tokens per second"), std::string::npos);
  now_ += 10;
  EXPECT_EQ(RunAll().size(), 1U);
}

TEST_F(RoomTest, ModelsTakeTurns) {
  const std::string a = Create(0)["model_id"], b = Create(1)["model_id"];
  RunAll();
  for (int64_t i = 1; i <= 3; ++i) Pass(a, i, 10 + i);
  for (int64_t i = 1; i <= 3; ++i) Pass(b, i, 20 + i);
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{11, 21, 12, 22, 13, 23}));
}

std::vector<int64_t> FirstTokens(const std::vector<Task>& tasks) {
  std::vector<int64_t> tokens;
  for (const Task& task : tasks) {
    tokens.push_back(task.work.action == TrainAction::kPass ? task.work.rows[0].tokens[0] : -static_cast<int64_t>(task.work.action));
  }
  return tokens;
}

TEST_F(RoomTest, PassesThatWaitAreJoinedAndNothingElse) {
  const std::string a = Create(0)["model_id"], b = Create(1)["model_id"], c = Create(2)["model_id"];
  RunAll();
  Pass(a, 1, 11);
  EXPECT_EQ(FirstTokens(room_.TakeJoined()), (std::vector<int64_t>{11}));  // alone: nobody is waited for
  EXPECT_TRUE(room_.TakeJoined().empty());
  Pass(a, 2, 12);
  room_.Step("me", {{"model_id", a}, {"seq_id", 3}});
  Pass(a, 4, 14);
  Pass(b, 1, 21);
  Pass(b, 2, 22);
  room_.Step("me", {{"model_id", c}, {"seq_id", 1}});
  Pass(c, 2, 32);
  const int64_t step = -static_cast<int64_t>(TrainAction::kStep);
  EXPECT_EQ(FirstTokens(room_.TakeJoined()), (std::vector<int64_t>{step}));  // c's: its pass can then join
  EXPECT_EQ(FirstTokens(room_.TakeJoined()), (std::vector<int64_t>{21, 12, 32}));  // of each model one; b has had the least
  EXPECT_EQ(FirstTokens(room_.TakeJoined()), (std::vector<int64_t>{step}));        // a's
  EXPECT_EQ(FirstTokens(room_.TakeJoined()), (std::vector<int64_t>{22, 14}));
  EXPECT_TRUE(room_.TakeJoined().empty());
}

TEST_F(RoomTest, StepsGoBeforePassesButNotForEver) {
  const std::string a = Create(0)["model_id"], b = Create(1)["model_id"];
  RunAll();
  Pass(a, 1, 11);
  for (int64_t seq = 1; seq <= 3; ++seq) room_.Step("me", {{"model_id", b}, {"seq_id", seq}});
  const int64_t step = -static_cast<int64_t>(TrainAction::kStep);
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{step, 11, step, step}));
}

TEST_F(RoomTest, JoinedPassesHaveALimitOfTokensAndTheOneLeftOutIsNext) {
  Room room({.model_name = "tiny", .model_directory = "/models/tiny", .limits = {100, 16}, .joined_tokens = 2}, checkpoints_, [] { return 0.0; });
  const std::string session = room.CreateSession("me", Json::object())["session_id"];
  std::vector<std::string> models;
  for (int64_t i = 0; i < 3; ++i) {
    models.push_back(room.CreateModel("me", {{"session_id", session}, {"model_seq_id", i}, {"base_model", "tiny"}, {"lora_config", {{"rank", 8}}}})["model_id"]);
    EXPECT_EQ(room.TakeJoined().size(), 1U);
  }
  for (int64_t seq = 1; seq <= 2; ++seq) {
    for (int64_t i = 0; i < 3; ++i) {
      const Json datum = {{"model_input", {{"chunks", {{{"tokens", {10 * i + seq}}}}}}},
                          {"loss_fn_inputs", {{"target_tokens", {{"data", {2}}, {"dtype", "int64"}}}, {"weights", {{"data", {1.0}}}}}}};
      room.Pass("me", {{"model_id", models[static_cast<size_t>(i)]}, {"seq_id", seq}, {"forward_backward_input", {{"data", {datum}}, {"loss_fn", "cross_entropy"}}}},
                "forward_backward_input");
    }
  }
  EXPECT_EQ(FirstTokens(room.TakeJoined()), (std::vector<int64_t>{1, 11}));
  EXPECT_EQ(FirstTokens(room.TakeJoined()), (std::vector<int64_t>{21, 2}));
  EXPECT_EQ(FirstTokens(room.TakeJoined()), (std::vector<int64_t>{12, 22}));
}

TEST(TrainWork, JoinedUnitsTravelAsTheyAre) {
  const TrainWork one{.model = "a", .rows = {{.tokens = {1, 2}, .targets = {2, 3}, .inputs = {.weights = {1, 0.5F}}}}, .backward = true};
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
