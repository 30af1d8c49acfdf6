// The service of remote training without a model, for tests: requests go in, what would run comes out in order.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <functional>
#include <utility>

#include "core/io/atomic_file.h"
#include "serve/tinker/remote_service.h"

namespace trireme::tinker {

class FakeReply : public HttpReply {
 public:
  void Send(HttpResponse answer) override { answers.push_back(std::move(answer)); }
  void StartEvents(std::map<std::string, std::string>) override {}
  void Event(std::string) override {}
  void EndEvents() override {}
  bool gone() const override { return false; }
  std::vector<HttpResponse> answers;
};

class FakeSamples : public SampleGenerator {
 public:
  void Submit(SampleOrder order, std::function<void(SampleResult)> done) override {
    if (full) throw ApiError{.status = 429, .message = "full"};
    orders.push_back(order);
    if (!holds) done_.push_back(std::move(done));
  }
  // What would come from another thread: never within Submit.
  void Deliver() {
    for (const auto& done : std::exchange(done_, {}))
      done({.sequences = {{.tokens = {5, 2}, .logprobs = {-0.5F, -0.25F}, .stopped = true}}});
  }
  int64_t most_rows() const override { return 8; }
  bool full = false, holds = false;
  std::vector<SampleOrder> orders;

 private:
  std::vector<std::function<void(SampleResult)>> done_;
};

class RemoteServiceTest : public ::testing::Test {
 protected:
  explicit RemoteServiceTest(const QuotaLimits& quota = {}, bool full = false)
      : directory_(std::filesystem::path(::testing::TempDir()) /
                   ("service-" + std::to_string(::getpid()) + "-" +
                    ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        checkpoints_(directory_, [this] { return unix_seconds_; }),
        service_({.model_name = "tiny",
                  .model_directory = "/models/tiny",
                  .limits = {100, 16},
                  .full = full,
                  .max_rank = 16,
                  .max_models = 3,
                  .quota = quota},
                 checkpoints_, [this] { return now_; }) {
    service_.Connect(&samples_, [] {});
    session_ = service_.sessions.Create("me", Json::object())["session_id"];
  }
  ~RemoteServiceTest() override { std::filesystem::remove_all(directory_); }

  Json Create(int64_t seq, const Json& lora = {{"rank", 8}}) {
    return service_.models.Create(
        "me", {{"session_id", session_}, {"model_seq_id", seq}, {"base_model", "tiny"}, {"lora_config", lora}});
  }
  std::string Model() { return Create(0)["model_id"]; }
  Json Pass(const std::string& model, int64_t seq, int64_t token = 1) {
    const Json datum = {
        {"model_input", {{"chunks", {{{"tokens", {token}}}}}}},
        {"loss_fn_inputs", {{"target_tokens", {{"data", {2}}, {"dtype", "int64"}}}, {"weights", {{"data", {1.0}}}}}}};
    return service_.models.Pass("me",
                                {{"model_id", model},
                                 {"seq_id", seq},
                                 {"forward_backward_input", {{"data", {datum}}, {"loss_fn", "cross_entropy"}}}},
                                "forward_backward_input");
  }
  // Runs all work that is ready; the tokens and actions in order.
  std::vector<int64_t> RunAll() {
    std::vector<int64_t> done;
    while (auto task = service_.work.Take()) {
      const bool pass = task->work.action == TrainAction::kPass;
      done.push_back(pass ? task->work.rows[0].tokens[0] : -static_cast<int64_t>(task->work.action));
      if (task->work.action == TrainAction::kSave && !task->work.directory.empty())
        WriteAtomicFile(std::filesystem::path(task->work.directory) / "adapter_config.json", "{}");
      TrainOutcome outcome{.loss = 1, .grad_norm = 2, .step = 1, .sampler = 4};
      if (pass)
        outcome.logprobs.assign(task->work.rows.size(), std::vector<float>(task->work.rows[0].targets.size(), -1));
      service_.work.Finish(*task, outcome);
      samples_.Deliver();
    }
    return done;
  }
  HttpResponse Poll(const std::string& id, const std::string& owner = "me") {
    samples_.Deliver();
    auto reply = std::make_shared<FakeReply>();
    service_.Retrieve(owner, {{"request_id", id}}, false, reply);
    held_ = reply;
    return reply->answers.empty() ? HttpResponse{.status = 0} : reply->answers.front();
  }
  // Of a call that may be refused.
  static int StatusOf(const std::function<void()>& call) {
    try {
      call();
    } catch (const ApiError& error) {
      return error.status;
    }
    return 200;
  }
  Json Result(const Json& future) { return Json::parse(Poll(future["request_id"]).body); }

  double now_ = 100;
  int64_t unix_seconds_ = 3600;
  const std::filesystem::path directory_;
  const Checkpoints checkpoints_;
  FakeSamples samples_;
  RemoteService service_;
  std::string session_;
  std::shared_ptr<FakeReply> held_;
};

}  // namespace trireme::tinker
