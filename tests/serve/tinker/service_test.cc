// The protocol without a model: order, doubles, gaps, owners, checkpoints, polls. Whose turn it is: turns_test.cc.
#include <algorithm>
#include <filesystem>
#include <functional>

#include "core/base/error.h"
#include "core/io/atomic_file.h"
#include "tests/serve/tinker/service_case.h"

namespace trireme::tinker {
namespace {

namespace fs = std::filesystem;

TEST_F(RemoteServiceTest, WorkIsDoneInTheOrderOfNumbersNotOfArrival) {
  const std::string model = Model();
  Pass(model, 2, 12);
  Pass(model, 3, 13);
  service_.models.Step("me", {{"model_id", model}, {"seq_id", 4}});
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{0}));  // kCreate alone: 1 is missing
  Pass(model, 1, 11);
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{11, 12, 13, -2}));
}

TEST_F(RemoteServiceTest, TheSameNumberIsTheSameRequest) {
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

TEST_F(RemoteServiceTest, WhatIsRefusedKeepsItsPlace) {
  const std::string model = Model();
  const Json bad = Pass(model, 1, 1000), good = Pass(model, 2, 5);
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(Result(bad)["category"], "user");
  EXPECT_NE(Result(bad)["error"].get<std::string>().find("token 1000"), std::string::npos);
  EXPECT_TRUE(Result(good).contains("metrics"));
}

TEST_F(RemoteServiceTest, AGapIsGivenUpInTime) {
  const std::string model = Model();
  RunAll();
  const Json late = Pass(model, 2);
  now_ += 59;
  service_.Tick();
  EXPECT_EQ(Poll(late["request_id"]).status, 0);
  now_ += 2;
  service_.Tick();
  EXPECT_EQ(Result(late)["category"], "server");
  Pass(model, 3, 7);
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{7}));
}

TEST_F(RemoteServiceTest, PollsAreHeldForHalfAMinute) {
  const std::string model = Model();
  const Json future = Pass(model, 1);
  EXPECT_EQ(Poll(future["request_id"]).status, 0);
  now_ += 31;
  service_.Tick();
  ASSERT_EQ(held_->answers.size(), 1U);
  EXPECT_EQ(held_->answers[0].status, 408);
  EXPECT_EQ(Json::parse(held_->answers[0].body)["type"], "try_again");
  Poll(future["request_id"]);
  RunAll();
  ASSERT_EQ(held_->answers.size(), 1U);
  EXPECT_EQ(held_->answers[0].status, 200);
  EXPECT_EQ(Poll(future["request_id"]).status, 200);  // once more: an answer may have been lost
  now_ += 601;
  service_.Tick();
  EXPECT_EQ(Poll(future["request_id"]).status, 410);
}

TEST_F(RemoteServiceTest, OthersFindNothing) {
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
  EXPECT_EQ(status([&] { service_.models.Step("you", {{"model_id", model}, {"seq_id", 9}}); }), 404);
  EXPECT_EQ(status([&] { service_.models.Info("you", {{"model_id", model}}); }), 404);
  EXPECT_EQ(status([&] { service_.sessions.Heartbeat("you", {{"session_id", session_}}); }), 404);
  RunAll();
  service_.models.Save("me", {{"model_id", model}, {"seq_id", 2}, {"path", "a"}});
  RunAll();
  const std::string path = "tinker://" + model + "/weights/a";
  EXPECT_EQ(status([&] { service_.checkpoints.WeightsInfo("me", {{"tinker_path", path}}); }), 200);
  EXPECT_EQ(status([&] { service_.checkpoints.WeightsInfo("you", {{"tinker_path", path}}); }), 404);
  EXPECT_EQ(status([&] { service_.checkpoints.WeightsInfo("me", {{"tinker_path", "tinker://../weights/a"}}); }), 400);
  EXPECT_EQ(status([&] { service_.checkpoints.WeightsInfo("me", {{"tinker_path", "tinker://x/../a"}}); }), 400);
}

TEST_F(RemoteServiceTest, SavesLiveAsLongAsAsked) {
  const std::string model = Model();
  const Json brief = service_.models.Save(
      "me",
      {{"model_id", model}, {"seq_id", 1}, {"path", "brief"}, {"ttl_seconds", 3600}, {"user_metadata", {{"a", 1}}}});
  service_.models.SaveForSampler("me", {{"model_id", model}, {"seq_id", 2}, {"path", "brief"}, {"ttl_seconds", 7200}});
  service_.models.Save("me", {{"model_id", model}, {"seq_id", 3}, {"path", "kept"}});
  const Json bad =
      service_.models.Save("me", {{"model_id", model}, {"seq_id", 4}, {"path", "bad"}, {"ttl_seconds", 60}});
  RunAll();
  EXPECT_EQ(Result(bad)["category"], "user");
  const auto listed = [&] { return service_.checkpoints.List("me", model, 100, 0)["checkpoints"]; };
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
  EXPECT_THROW(service_.checkpoints.WeightsInfo("me", {{"tinker_path", Result(brief)["path"]}}), ApiError);
  EXPECT_EQ(listed().size(), 2U);
  EXPECT_FALSE(fs::exists(directory_ / "me" / model / "weights" / "brief"));
  unix_seconds_ += 1 << 30;
  EXPECT_EQ(listed().size(), 1U);
}

TEST_F(RemoteServiceTest, SavesHaveTheirNameOnceAndOnlyWhole) {
  const std::string model = Model();
  const Json save = service_.models.Save("me", {{"model_id", model}, {"seq_id", 1}, {"path", "one"}});
  const Json again = service_.models.Save("me", {{"model_id", model}, {"seq_id", 2}, {"path", "one"}});
  const Json over =
      service_.models.Save("me", {{"model_id", model}, {"seq_id", 3}, {"path", "one"}, {"overwrite", true}});
  const Json bad = service_.models.Save("me", {{"model_id", model}, {"seq_id", 4}, {"path", "../one"}});
  const Json sampler = service_.models.SaveForSampler("me", {{"model_id", model}, {"seq_id", 5}, {"path", "one"}});
  RunAll();
  EXPECT_EQ(Result(save)["path"], "tinker://" + model + "/weights/one");
  EXPECT_EQ(Result(again)["category"], "user");
  EXPECT_TRUE(Result(over).contains("path"));
  EXPECT_EQ(Result(bad)["category"], "user");
  EXPECT_EQ(Result(sampler)["path"], "tinker://" + model + "/sampler_weights/one");
  EXPECT_EQ(service_.checkpoints.List("me", model, 100, 0)["checkpoints"].size(), 2U);
  EXPECT_EQ(service_.models.Runs("me", 20, 0)["training_runs"][0]["last_checkpoint"]["checkpoint_id"], "weights/one");
  EXPECT_EQ(service_.checkpoints.WeightsInfo("me", {{"tinker_path", Result(save)["path"]}})["lora_rank"], 8);
  const Json other_rank = service_.models.Create(
      "me", {{"session_id", session_}, {"model_seq_id", 1}, {"base_model", "tiny"}, {"lora_config", {{"rank", 4}}}});
  const Json load = service_.models.Load(
      "me", {{"model_id", other_rank["model_id"]}, {"seq_id", 1}, {"path", Result(save)["path"]}, {"optimizer", true}});
  const Json own = service_.models.Load(
      "me", {{"model_id", model}, {"seq_id", 6}, {"path", Result(save)["path"]}, {"optimizer", true}});
  RunAll();
  EXPECT_EQ(Result(load)["category"], "user");
  EXPECT_EQ(Result(own)["type"], "load_weights");
}

TEST_F(RemoteServiceTest, AModelTakesNoCheckpointOfOtherAdapters) {
  const std::string model = Create(0, {{"rank", 8}, {"train_mlp", false}})["model_id"], other = Create(1)["model_id"];
  const Json save = service_.models.Save("me", {{"model_id", model}, {"seq_id", 1}, {"path", "one"}});
  RunAll();
  const Json own = service_.models.Load("me", {{"model_id", model}, {"seq_id", 2}, {"path", Result(save)["path"]}});
  const Json load = service_.models.Load("me", {{"model_id", other}, {"seq_id", 1}, {"path", Result(save)["path"]}});
  RunAll();
  EXPECT_EQ(Result(own)["type"], "load_weights");
  EXPECT_EQ(Result(load)["category"], "user");
  const std::string error = Result(load).value("error", "");
  EXPECT_NE(
      error.find("was trained with train_attn=true, train_mlp=false, the model has train_attn=true, train_mlp=true"),
      std::string::npos)
      << error;
}

TEST_F(RemoteServiceTest, WhatTheServerCannotTakeKeepsItsPlaceToo) {
  const std::string model = Model();
  WriteAtomicFile(directory_ / "me", "no directory: checkpoints cannot be written below it");
  const Json save = service_.models.Save("me", {{"model_id", model}, {"seq_id", 1}, {"path", "one"}}),
             pass = Pass(model, 2, 5);
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(Result(save)["category"], "server");
  EXPECT_NE(Result(save).value("error", "").find("its log says why"), std::string::npos);
  EXPECT_TRUE(Result(pass).contains("metrics"));
}

TEST_F(RemoteServiceTest, CreationIsCheckedBeforeAnythingIsQueued) {
  EXPECT_THROW(Create(0, {{"rank", 17}}), ApiError);
  EXPECT_THROW(Create(0, {{"rank", 8}, {"train_attn", false}, {"train_mlp", false}}), ApiError);
  EXPECT_THROW(Create(0, {{"ranks", 8}}), ApiError);
  EXPECT_THROW(
      service_.models.Create(
          "me",
          {{"session_id", session_}, {"model_seq_id", 0}, {"base_model", "other"}, {"lora_config", Json::object()}}),
      ApiError);
  EXPECT_EQ(Create(0, {{"rank", 16}, {"train_unembed", true}})["model_id"], session_ + ":train:0");
  Create(1);
  Create(2);
  EXPECT_THROW(Create(3), ApiError);  // three at once
}

TEST_F(RemoteServiceTest, ASilentSessionEndsWithItsModels) {
  const std::string model = Model();
  RunAll();
  now_ += 1700;
  service_.sessions.Heartbeat("me", {{"session_id", session_}});
  now_ += 1700;
  service_.Tick();
  const Json waiting = Pass(model, 2);  // 1 is missing
  now_ += 1801;
  service_.Tick();
  EXPECT_EQ(Result(waiting)["category"], "server");
  EXPECT_EQ(RunAll(), (std::vector<int64_t>{-static_cast<int64_t>(TrainAction::kDrop)}));
  EXPECT_THROW(Pass(model, 3), ApiError);
}

TEST_F(RemoteServiceTest, SamplersOpenOnceAndAnswerDoublesOnce) {
  const std::string model = Model();
  const Json saved =
      service_.models.SaveForSampler("me", {{"model_id", model}, {"seq_id", 1}, {"sampling_session_seq_id", 0}});
  RunAll();
  const std::string sampler = Result(saved)["sampling_session_id"];
  const Json body = {{"sampling_session_id", sampler},
                     {"seq_id", 0},
                     {"prompt", {{"chunks", {{{"tokens", {1, 2, 3}}}}}}},
                     {"num_samples", 1},
                     {"prompt_logprobs", true}};
  const Json sample = service_.samplers.Sample("me", body);
  EXPECT_EQ(sample["sample_sequence_ids"].size(), 1U);
  EXPECT_EQ(service_.samplers.Sample("me", body)["request_id"], sample["request_id"]);
  RunAll();
  ASSERT_EQ(samples_.orders.size(), 1U);
  EXPECT_EQ(samples_.orders[0].adapter, 4);
  const Json result = Result(sample);
  EXPECT_EQ(result["sequences"][0]["tokens"], Json({5, 2}));
  EXPECT_EQ(result["prompt_logprobs"], Json({nullptr, -1.0, -1.0}));
  EXPECT_EQ(service_.samplers.Info("me", sampler)["base_model"], "tiny");
}

TEST_F(RemoteServiceTest, SamplesAreWaitedForTogether) {
  const std::string sampler = service_.samplers.Create(
      "me", {{"session_id", session_}, {"sampling_session_seq_id", 0}, {"base_model", "tiny"}})["sampling_session_id"];
  const auto poll = [&](int64_t cursor, const Json& retrieved = Json::array(), int64_t clone = 0) {
    held_ = std::make_shared<FakeReply>();
    service_.samplers.Retrieve(
        "me",
        {{"target", {{"type", "sampling_session"}, {"sampling_session_id", sampler}, {"cloned_sampler_id", clone}}},
         {"prev_cursor", cursor},
         {"retrieved_request_ids", retrieved}},
        held_);
    return held_->answers.empty() ? Json() : Json::parse(held_->answers[0].body);
  };
  const auto sample = [&](int64_t seq) {
    const Json answer = service_.samplers.Sample(
        "me", {{"sampling_session_id", sampler}, {"seq_id", seq}, {"prompt", {{"chunks", {{{"tokens", {1}}}}}}}});
    samples_.Deliver();
    return answer["request_id"];
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
  service_.Tick();
  EXPECT_EQ(Json::parse(held_->answers.at(0).body)["completions"].size(), 0U);
  poll(2);
  service_.Close();
  EXPECT_EQ(held_->answers.at(0).status, 408);
}

TEST_F(RemoteServiceTest, ARestartPutsInOrderWhatAKillLeft) {
  const std::string model = Model();
  service_.models.Save("me", {{"model_id", model}, {"seq_id", 1}, {"path", "kept"}});
  service_.models.Save("me", {{"model_id", model}, {"seq_id", 2}, {"path", "replaced"}});
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
  for (const auto& entry : fs::directory_iterator(copy / "me" / model / "weights"))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"kept", "replaced"}));
  fs::remove_all(copy);
}

// What is kept for a client has a limit, wherever it is attached, and so has the number of sessions.
TEST_F(RemoteServiceTest, WhatUsersAttachHasALimit) {
  const Json large = {{"notes", std::string(20'000, 'x')}}, small = {{"notes", std::string(2'000, 'x')}};
  const auto status = [](const auto& call) {
    try {
      call();
    } catch (const ApiError& error) {
      return error.status;
    }
    return 200;
  };
  EXPECT_EQ(status([&] { service_.sessions.Create("me", {{"user_metadata", large}}); }), 400);
  EXPECT_EQ(status([&] { service_.sessions.Create("me", {{"display_name", std::string(300, 'x')}}); }), 400);
  EXPECT_EQ(status([&] { service_.sessions.Create("me", {{"user_metadata", small}}); }), 200);
  const std::string session = service_.sessions.Create("me", Json::object())["session_id"];
  const Json model = {{"session_id", session}, {"model_seq_id", 0}, {"base_model", "tiny"}, {"user_metadata", large}};
  EXPECT_EQ(status([&] { service_.models.Create("me", model); }), 400);
  EXPECT_EQ(status([&] {
              for (int i = 0; i < 5000; ++i) service_.sessions.Create("me", Json::object());
            }),
            429);
}

TEST_F(RemoteServiceTest, TheStatusIsOfOneOwnerItsSumsOfAll) {
  const std::string model = Model();
  RunAll();
  for (int64_t seq = 1; seq <= 30; ++seq) Pass(model, seq);
  RunAll();
  service_.models.Step("me", {{"model_id", model}, {"seq_id", 31}});
  RunAll();
  Pass(model, 33);  // 32 is missing
  service_.sessions.Create("you", {{"display_name", "nightly"}});
  const Json mine = service_.Status("me"), yours = service_.Status("you"), all = service_.Status(std::nullopt);
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
  EXPECT_EQ(service_.Status("me")["models"][0]["tokens_per_second"], 0.0);
}

TEST_F(RemoteServiceTest, OneServerHasTheDirectory) { EXPECT_THROW(Checkpoints{directory_}, Error); }

}  // namespace
}  // namespace trireme::tinker
