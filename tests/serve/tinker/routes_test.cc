// The paths below /api/v1 without a socket: archives and links, what is refused, and how.
#include "serve/tinker/tinker_routes.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/io/atomic_file.h"

namespace trireme::tinker {
namespace {

namespace fs = std::filesystem;

class OneReply : public HttpReply {
 public:
  void Send(HttpResponse answer) override { answer_ = std::move(answer); }
  void StartEvents(std::map<std::string, std::string>) override {}
  void Event(std::string) override {}
  void EndEvents() override {}
  bool gone() const override { return false; }
  HttpResponse answer_ = {.status = 0};
};

class RoutesTest : public ::testing::Test {
 protected:
  RoutesTest()
      : directory_(fs::path(::testing::TempDir()) / ("routes-" + std::to_string(::getpid()))),
        checkpoints_(directory_, [this] { return now_; }),
        service_({.model_name = "tiny", .limits = {100, 16}}, checkpoints_, [] { return 0.0; }) {
    const fs::path aside = checkpoints_.Aside(owner_, path_);
    WriteAtomicFile(aside / "adapter_config.json", "{}");
    WriteAtomicFile(aside / "adapter_model.safetensors", weights_);
    checkpoints_.Commit(aside, owner_, path_, {{"time", "1970-01-01T00:00:00Z"}, {"lora_rank", 8}});
  }
  ~RoutesTest() override { fs::remove_all(directory_); }

  HttpResponse Ask(const std::string& method, const std::string& target, const std::string& body = "",
                   const std::string& key = "tml-a") {
    HttpRequest request{.method = method,
                        .target = target.starts_with('/') ? target : kTinkerPrefix + target,
                        .headers = {{"host", "127.0.0.1:80"}},
                        .body = body};
    if (!key.empty()) request.headers["x-api-key"] = key;
    auto reply = std::make_shared<OneReply>();
    routes_.Handle(request, reply);
    return reply->answer_;
  }
  std::string Target(const std::string& link) const { return link.substr(link.find("/api")); }

  int64_t now_ = 1000;
  const fs::path directory_;
  const Checkpoints checkpoints_;
  RemoteService service_;
  const Callers callers_{ApiKeys({"tml-a", "tml-b"}), {}, ApiKeys()};
  TinkerRoutes routes_{service_, checkpoints_, callers_};
  const std::string owner_ = checkpoints_.OwnerOf("tml-a"), weights_ = std::string(600'000, 'w');
  const CheckpointPath path_{"run:train:0", kTrainingKind, "one"};
  const std::string checkpoint_ = "training_runs/run:train:0/checkpoints/weights/one";
};

TEST_F(RoutesTest, AnArchiveIsATarBehindALinkThatNeedsNoKey) {
  const HttpResponse answer = Ask("GET", checkpoint_ + "/archive");
  ASSERT_EQ(answer.status, 302);
  EXPECT_EQ(answer.headers.at("Expires"), "Thu, 01 Jan 1970 01:16:40 GMT");
  const std::string target = Target(answer.headers.at("Location"));
  const HttpResponse tar = Ask("GET", target, "", "");
  ASSERT_EQ(tar.status, 200) << tar.body;
  EXPECT_EQ(tar.body.size() % 512, 0U);
  EXPECT_EQ(tar.body.substr(0, 19), "adapter_config.json");
  EXPECT_NE(tar.body.find(weights_), std::string::npos);
  EXPECT_NE(tar.body.find("checkpoint_complete"), std::string::npos);
  EXPECT_EQ(tar.body.find("lora_rank"), std::string::npos);  // the server's own record stays here
  std::string changed = target;
  changed.replace(changed.find("weights/one"), 11, "weights/two");
  EXPECT_EQ(Ask("GET", changed, "", "").status, 403);
  changed = target;
  changed.replace(changed.find("expires=4"), 9, "expires=9");
  EXPECT_EQ(Ask("GET", changed, "", "").status, 403);
  now_ += 3600;
  EXPECT_EQ(Ask("GET", target, "", "").status, 403);
}

TEST_F(RoutesTest, FilesHaveLinksOfTheirOwn) {
  const Json links = Json::parse(Ask("GET", checkpoint_ + "/external_weights_urls").body);
  EXPECT_EQ(links["expires"], "1970-01-01T01:16:40Z");
  ASSERT_EQ(links["urls"].size(), 2U);
  EXPECT_EQ(Ask("GET", Target(links["urls"]["adapter_model.safetensors"]), "", "").body, weights_);
  const std::string target = Target(links["urls"]["adapter_config.json"]);
  checkpoints_.Remove(owner_, path_);
  EXPECT_EQ(Ask("GET", target, "", "").status, 404);
}

TEST_F(RoutesTest, OthersHaveNoLinks) {
  EXPECT_EQ(Ask("GET", checkpoint_ + "/archive", "", "tml-b").status, 404);
  EXPECT_EQ(Ask("GET", checkpoint_ + "/external_weights_urls", "", "tml-b").status, 404);
  EXPECT_EQ(Ask("GET", checkpoint_ + "/archive", "", "").status, 401);
  EXPECT_EQ(Ask("PUT", checkpoint_ + "/ttl", R"({"ttl_seconds": 3600})", "tml-b").status, 404);
  EXPECT_EQ(Ask("DELETE", checkpoint_, "", "tml-b").status, 404);
  EXPECT_EQ(Ask("GET", "training_runs/../checkpoints/weights/one/archive").status, 400);
  EXPECT_EQ(Ask("GET", "training_runs/run:train:0/checkpoints/weights/../archive").status, 400);
}

TEST_F(RoutesTest, ATimeToLiveIsSetAndTaken) {
  EXPECT_EQ(Ask("PUT", checkpoint_ + "/ttl", R"({"ttl_seconds": 60})").status, 400);
  EXPECT_EQ(Ask("PUT", checkpoint_ + "/ttl", R"({"ttl_seconds": 3600})").status, 200);
  EXPECT_EQ(Json::parse(Ask("GET", "checkpoints").body)["checkpoints"][0]["expires_at"], "1970-01-01T01:16:40Z");
  EXPECT_EQ(Ask("PUT", checkpoint_ + "/ttl", R"({"ttl_seconds": null})").status, 200);
  now_ += 4000;
  EXPECT_EQ(Json::parse(Ask("GET", "checkpoints").body)["checkpoints"].size(), 1U);
}

TEST_F(RoutesTest, WhatIsNotOfferedIsRefusedInWords) {
  const std::vector<std::pair<std::string, std::string>> paths = {
      {"POST", checkpoint_ + "/publish"}, {"DELETE", checkpoint_ + "/publish"},
      {"PUT", "sessions/x/project"},      {"GET", "sessions/x/trace_export"},
      {"POST", "sessions/search"},        {"GET", "audit"},
      {"GET", "billing/usage/events"},    {"POST", "copy_weights"},
      {"POST", "create_custom_loss"},     {"POST", "auth/token"}};
  for (const auto& [method, path] : paths) {
    const HttpResponse answer = Ask(method, path, "{}");
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_NE(Json::parse(answer.body)["detail"].get<std::string>().find("is not offered by this server"),
              std::string::npos)
        << path;
  }
  EXPECT_EQ(checkpoints_.All(owner_).size(), 1U);  // DELETE of publish deletes nothing
}

TEST_F(RoutesTest, ListsComeInPages) {
  for (const char* name : {"two", "three"}) {
    const CheckpointPath path{"run:train:0", kTrainingKind, name};
    checkpoints_.Commit(checkpoints_.Aside(owner_, path), owner_, path,
                        {{"time", std::string("1970-01-01T00:00:0") + (name[1] == 'w' ? "1Z" : "2Z")}});
  }
  const Json page = Json::parse(Ask("GET", "checkpoints?limit=2&offset=1").body);
  EXPECT_EQ(page["cursor"], Json({{"offset", 1}, {"limit", 2}, {"total_count", 3}}));
  EXPECT_EQ(page["checkpoints"][0]["checkpoint_id"], "weights/two");  // the newest one first
  EXPECT_EQ(page["checkpoints"][1]["checkpoint_id"], "weights/one");
  for (int i = 0; i < 3; ++i) Ask("POST", "create_session", "{}");
  EXPECT_EQ(Json::parse(Ask("GET", "sessions?limit=2&offset=2").body)["sessions"].size(), 1U);
}

}  // namespace
}  // namespace trireme::tinker
