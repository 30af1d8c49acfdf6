// OpenAI's paths without a socket and without a model: what goes to the service, what is refused, and that neither
// bodies nor prompts hold up the server's thread.
#include "serve/routes.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "core/base/error.h"

namespace trireme {
namespace {

// Answers come from other threads.
class OneReply : public HttpReply {
 public:
  void Send(HttpResponse answer) override {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
    came_.notify_all();
  }
  void StartEvents(std::map<std::string, std::string>) override {}
  void Event(std::string) override {}
  void EndEvents() override {}
  bool gone() const override { return false; }
  HttpResponse Await() {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [this] { return answer_.has_value(); });
    return *answer_;
  }
  bool there() {
    const std::lock_guard lock(mutex_);
    return answer_.has_value();
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::optional<HttpResponse> answer_;
};

// Fails every request with what it was asked for, once it is let.
class FakeService : public GenerationService {
 public:
  void Submit(Generation generation) override {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [this] { return !held_; });
    const CompletionRequest& request = generation.request;
    sampling_ = request.sampling;
    max_tokens_ = request.max_tokens;
    salt_ = generation.salt;
    generation.listener->Fail(
        {.status = 499, .message = Concat(request.prompts.size(), " ", request.prompts[0].size())});
  }
  void Change(AdapterChange change) override { change.done(nullptr); }
  Metrics& metrics() override { return metrics_; }
  Sampling sampling() {
    const std::lock_guard lock(mutex_);
    return sampling_;
  }
  int64_t max_tokens() {
    const std::lock_guard lock(mutex_);
    return max_tokens_;
  }
  std::string salt() {
    const std::lock_guard lock(mutex_);
    return salt_;
  }
  void Hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    came_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  bool held_ = false;
  Sampling sampling_;  // of the last request
  int64_t max_tokens_ = 0;
  std::string salt_;  // of the last request
  Metrics metrics_;
};

class RoutesTest : public ::testing::Test {
 protected:
  std::shared_ptr<OneReply> Send(const std::string& method, const std::string& target, const Json& body = nullptr,
                                 const std::string& type = "application/json") {
    return SendTo(routes_, method, target, body, type);
  }
  static std::shared_ptr<OneReply> SendTo(Routes& routes, const std::string& method, const std::string& target,
                                          const Json& body, const std::string& type = "application/json") {
    auto reply = std::make_shared<OneReply>();
    routes.Handle({.method = method,
                   .target = target,
                   .headers = {{"host", "localhost"}, {"content-type", type}},
                   .body = body.is_null() ? "" : JsonLine(body)},
                  reply);
    return reply;
  }
  HttpResponse Ask(const std::string& method, const std::string& target, const Json& body = nullptr,
                   const std::string& type = "application/json") {
    return Send(method, target, body, type)->Await();
  }
  static std::string MessageOf(const HttpResponse& answer) { return Json::parse(answer.body)["error"]["message"]; }
  static std::string CodeOf(const HttpResponse& answer) { return JsonLine(Json::parse(answer.body)["error"]["code"]); }

  const Tokenizer tokenizer_{TRIREME_EXAMPLES "/chat"};
  const ChatTemplate chat_ = ChatTemplate::Of(tokenizer_, "", Json::object());
  AdapterNames adapters_;
  const ServedModel model_{.tokenizer = tokenizer_,
                           .chat = &chat_,
                           .name = "org/tiny",
                           .adapters = &adapters_,
                           .vocabulary = 260,
                           .context = 64};
  const Callers callers_{ApiKeys(), {"localhost"}, ApiKeys()};
  FakeService service_;
  Routes routes_{service_, model_, callers_, ""};
  const Json prompt_ = {{"model", "org/tiny"}, {"prompt", "abc"}};
};

TEST_F(RoutesTest, EachPathIsThereWithAndWithoutItsVersion) {
  for (const std::string prefix : {"/v1", ""}) {
    EXPECT_EQ(Ask("GET", prefix + "/health").status, 200);
    EXPECT_EQ(Ask("HEAD", prefix + "/version").status, 200);
    EXPECT_EQ(Ask("GET", prefix + "/metrics?x=1").status, 200);
    EXPECT_EQ(Json::parse(Ask("GET", prefix + "/models").body)["data"].size(), 1U);
    EXPECT_EQ(Json::parse(Ask("GET", prefix + "/models/org%2Ftiny").body)["id"], "org/tiny");
    EXPECT_EQ(Json::parse(Ask("GET", prefix + "/models/org/tiny").body)["id"], "org/tiny");
    EXPECT_EQ(MessageOf(Ask("POST", prefix + "/completions", prompt_)), "1 3");
    EXPECT_EQ(Json::parse(Ask("POST", prefix + "/tokenize", prompt_).body)["count"], 3);
    EXPECT_FALSE(Ask("GET", prefix + "/health").headers.at("X-Request-Id").empty());
  }
}

TEST_F(RoutesTest, OthersAreRefusedInWords) {
  EXPECT_EQ(Ask("GET", "/v1/models/other").status, 404);
  EXPECT_EQ(Ask("GET", "/v1/completions").headers.at("Allow"), "POST");
  EXPECT_EQ(Ask("POST", "/v1/completions", prompt_, "text/plain").status, 415);
  EXPECT_EQ(Ask("POST", "/v1/load_lora_adapter", {{"lora_name", "a"}, {"lora_path", "b"}}).status, 404);
  const HttpResponse embeddings = Ask("POST", "/v1/embeddings", {{"input", "a"}});
  EXPECT_EQ(embeddings.status, 404);
  EXPECT_EQ(MessageOf(embeddings).find("the API is below /v1"), std::string::npos);
  EXPECT_TRUE(MessageOf(embeddings).starts_with("/v1/embeddings is not offered: ")) << MessageOf(embeddings);
  EXPECT_NE(MessageOf(Ask("GET", "/v1/nothing")).find("/v1/chat/completions"), std::string::npos);
}

TEST_F(RoutesTest, FieldsAreHonouredOrRefused) {
  const Json chat = {{"model", "org/tiny"}, {"messages", {{{"role", "user"}, {"content", "a"}}}}};
  EXPECT_EQ(Ask("POST", "/v1/chat/completions", chat).status, 499);
  for (const auto& [name, value] : std::vector<std::pair<std::string, Json>>{
           {"web_search_options", Json::object()}, {"reasoning_effort", "low"}, {"verbosity", "high"}}) {
    Json more = chat;
    more[name] = value;
    const HttpResponse answer = Ask("POST", "/v1/chat/completions", more);
    EXPECT_EQ(answer.status, 400) << name;
    EXPECT_EQ(Json::parse(answer.body)["error"]["param"], name);
    more[name] = nullptr;
    EXPECT_EQ(Ask("POST", "/v1/chat/completions", more).status, 499) << name;
  }
}

TEST_F(RoutesTest, WhatARequestLeavesOutIsTheServersDefault) {
  EXPECT_EQ(Ask("POST", "/v1/completions", prompt_).status, 499);
  EXPECT_DOUBLE_EQ(service_.sampling().temperature, 1);
  EXPECT_EQ(service_.max_tokens(), 16);

  ServedModel model = model_;
  model.defaults = {.temperature = 0.6,
                    .top_p = 0.9,
                    .min_p = 0.1,
                    .presence_penalty = 0.5,
                    .frequency_penalty = 0.25,
                    .repetition_penalty = 1.1,
                    .top_k = 20,
                    .max_tokens = 7};
  Routes routes(service_, model, callers_, "");
  EXPECT_EQ(SendTo(routes, "POST", "/v1/completions", prompt_)->Await().status, 499);
  const Sampling left_out = service_.sampling();
  EXPECT_DOUBLE_EQ(left_out.temperature, 0.6);
  EXPECT_DOUBLE_EQ(left_out.top_p, 0.9);
  EXPECT_DOUBLE_EQ(left_out.min_p, 0.1);
  EXPECT_DOUBLE_EQ(left_out.presence_penalty, 0.5);
  EXPECT_DOUBLE_EQ(left_out.frequency_penalty, 0.25);
  EXPECT_DOUBLE_EQ(left_out.repetition_penalty, 1.1);
  EXPECT_EQ(left_out.top_k, 20);
  EXPECT_EQ(service_.max_tokens(), 7);

  Json more = prompt_;
  more.update({{"temperature", 0}, {"top_p", 1}, {"top_k", -1}, {"max_tokens", 3}, {"repetition_penalty", 1}});
  EXPECT_EQ(SendTo(routes, "POST", "/v1/completions", more)->Await().status, 499);
  EXPECT_DOUBLE_EQ(service_.sampling().temperature, 0);
  EXPECT_DOUBLE_EQ(service_.sampling().top_p, 1);
  EXPECT_DOUBLE_EQ(service_.sampling().repetition_penalty, 1);
  EXPECT_EQ(service_.sampling().top_k, 0);
  EXPECT_EQ(service_.max_tokens(), 3);
}

TEST_F(RoutesTest, WhatWouldReachBeyondTheModelIsRefused) {
  const auto refused = [&](const Json& prompt, const Json& more = Json::object()) {
    Json body = {{"model", "org/tiny"}, {"prompt", prompt}};
    body.update(more);
    const HttpResponse response = Ask("POST", "/v1/completions", body);
    return response.status == 400 ? MessageOf(response) : Concat("status ", response.status);
  };
  EXPECT_EQ(refused(Json::array({1, 260})), "prompt: 260 is no token id of this model");
  EXPECT_EQ(refused(Json::array({1, -2})), "prompt: -2 is no token id of this model");
  EXPECT_EQ(refused(Json::array({1, 259})), "status 499");
  EXPECT_NE(refused(std::vector<int>(64, 1)).find("the prompt has 64"), std::string::npos);
  EXPECT_EQ(refused(std::vector<int>(63, 1)), "status 499");
  EXPECT_EQ(refused(Json::array({"a", "b"}), {{"n", 64}}), "status 499");
  EXPECT_NE(refused(Json::array({"a", "b", "c"}), {{"n", 64}}).find("at most 128 per request"), std::string::npos);
}

TEST_F(RoutesTest, CallersAreToldApartAndOtherSitesRefused) {
  const Callers callers(ApiKeys({"one", "two"}), {"localhost"}, ApiKeys());
  Routes routes(service_, model_, callers, "");
  const auto ask = [&](const std::string& name, const std::string& value) {
    std::map<std::string, std::string> headers = {
        {"host", "localhost"}, {"content-type", "application/json"}, {"authorization", "Bearer one"}};
    headers[name] = value;
    const auto reply = std::make_shared<OneReply>();
    routes.Handle({.method = "POST",
                   .target = "/v1/completions",
                   .headers = std::move(headers),
                   .body = R"({"model": "org/tiny", "prompt": "abc", "cache_salt": "s"})"},
                  reply);
    return reply->Await().status;
  };
  std::vector<std::string> salts;
  for (const char* key : {"Bearer one", "Bearer two", "Bearer one"}) {
    EXPECT_EQ(ask("authorization", key), 499);
    salts.push_back(service_.salt());
  }
  EXPECT_NE(salts[0], salts[1]) << "the same text and the same salt of another caller";
  EXPECT_EQ(salts[0], salts[2]);
  EXPECT_EQ(ask("authorization", "Bearer three"), 401);
  EXPECT_EQ(ask("host", "elsewhere"), 403);
  EXPECT_EQ(ask("origin", "http://elsewhere"), 403);
  EXPECT_EQ(ask("origin", "http://localhost:3000"), 499);
}

// By their bytes, before templates and the tokenizer see them: the message says so.
TEST_F(RoutesTest, WhatCannotFitIsNotTokenised) {
  const auto expect_refusal = [&](const std::string& path, const Json& body, const std::string& words) {
    const HttpResponse answer = Ask("POST", path, body);
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_EQ(CodeOf(answer), "\"context_length_exceeded\"") << path;
    EXPECT_NE(MessageOf(answer).find(words), std::string::npos) << MessageOf(answer);
  };
  const std::string large(1 << 20, 'a');
  Json many = Json::array();
  for (int i = 0; i < 20'000; ++i) many.push_back({{"role", "user"}, {"content", "a"}});
  expect_refusal("/v1/completions", {{"model", "org/tiny"}, {"prompt", large}}, "1048576 bytes");
  expect_refusal("/v1/completions", {{"model", "org/tiny"}, {"prompt", std::string(100, 'a')}}, "the prompt has 100");
  expect_refusal("/tokenize", {{"prompt", large}}, "1048576 bytes");
  expect_refusal("/v1/chat/completions",
                 {{"model", "org/tiny"}, {"messages", {{{"role", "user"}, {"content", large}}}}},
                 "1048580 bytes");  // with its role
  expect_refusal("/v1/chat/completions", {{"model", "org/tiny"}, {"messages", many}}, "20000 messages");
}

TEST_F(RoutesTest, TheServersThreadWaitsForNoPrompt) {
  service_.Hold(true);
  const auto slow = Send("POST", "/v1/completions", prompt_), next = Send("POST", "/v1/completions", prompt_);
  EXPECT_EQ(Ask("GET", "/health").status, 200);
  EXPECT_EQ(Ask("GET", "/v1/models").status, 200);
  EXPECT_FALSE(slow->there() || next->there());
  std::vector<std::shared_ptr<OneReply>> more;
  for (int i = 0; i < 300; ++i) more.push_back(Send("POST", "/v1/completions", prompt_));
  EXPECT_EQ(more.back()->Await().status, 429);
  service_.Hold(false);
  EXPECT_EQ(slow->Await().status, 499);
  EXPECT_EQ(next->Await().status, 499);
}

}  // namespace
}  // namespace trireme
