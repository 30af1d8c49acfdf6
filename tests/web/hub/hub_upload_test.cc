// Pushes to a stand-in of a hub in the same process: what arrives, what is not sent twice, who gets the token, and what
// a refusal says.
#include "web/hub/hub_upload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <sstream>
#include <tuple>

#include "core/base/error.h"
#include "core/base/json.h"
#include "web/http/http.h"
#include "web/hub/blob_digest.h"

namespace trireme {
namespace {

constexpr size_t kLarge = 20, kPart = 64;  // files of this size are in the store; those above two parts come in parts

class HubStandIn {
 public:
  HubStandIn()
      : server_(
            {.host = "127.0.0.1"}, {}, [](const HttpRequest&) { return int64_t{0}; },
            [this](const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
              const std::lock_guard lock(mutex_);
              asked_.push_back(request.method + " " + request.target);
              if (request.path().starts_with("/store") && !request.header("authorization").empty()) leaked_ = true;
              reply->Send(Answer(request));
            }) {}

  HubUpload Client() {
    HubServer hub{
        .endpoint = *ParseAddress(At("localhost")), .token = "secret", .answer_seconds = 60, .wait_seconds = 60};
    hub.endpoint.path.clear();  // as ReadHubServer has it
    return {*ParseHubName("me/model"), hub, [](const std::string&) {}};
  }
  std::string At(const std::string& host) const { return Concat("http://", host, ":", server_.port()); }
  int64_t Asked(const std::string& part) {
    const std::lock_guard lock(mutex_);
    return std::ranges::count_if(asked_, [&](const std::string& one) { return one.find(part) != std::string::npos; });
  }

  std::map<std::string, std::string> files, blobs;  // by path, by digest
  std::map<std::string, int> refuse;                // by a part of the address: the status
  std::string message;
  bool leaked() const { return leaked_; }

 private:
  HttpResponse Answer(const HttpRequest& request) {
    for (auto& [part, status] : refuse) {
      if (request.target.find(part) == std::string::npos) continue;
      const int refused = status;
      if (status >= 500) refuse.erase(part);  // once
      return {.status = refused, .body = R"({"error": "because"})"};
    }
    const std::string& path = request.target;
    if (path.starts_with("/store/")) return Store(request, path.substr(7));
    if (path.find("/preupload/") != std::string::npos) return Modes(ParseJson(request.body, "asked"));
    if (path.ends_with("/objects/batch")) return Batch(ParseJson(request.body, "asked"));
    if (path.find("/commit/") != std::string::npos) return Commit(request.body);
    if (path == "/complete") return Complete(ParseJson(request.body, "asked"));
    return {.status = path == "/api/repos/create" && exists_++ > 0 ? 409 : 200, .body = "{}"};
  }
  HttpResponse Modes(const Json& asked) const {
    Json answer = Json::array();
    for (const Json& file : asked["files"]) {
      const auto known = files.find(file["path"].get<std::string>());
      const bool large = file["size"].get<size_t>() >= kLarge;
      answer.push_back({{"path", file["path"]}, {"uploadMode", large ? "lfs" : "regular"}, {"shouldIgnore", false}});
      if (known != files.end()) answer.back()["oid"] = TextDigest(known->second, large ? 64 : 40);
    }
    return {.body = Json{{"files", answer}}.dump()};
  }
  HttpResponse Batch(const Json& asked) const {
    Json answer = Json::array();
    for (const Json& object : asked["objects"]) {
      const std::string oid = object["oid"], place = Concat(At("127.0.0.1"), "/store/", oid);
      const size_t size = object["size"], parts = (size + kPart - 1) / kPart;
      answer.push_back(object);
      if (blobs.contains(oid)) continue;
      Json upload = {{"href", parts > 2 ? At("localhost") + "/complete" : place}};
      if (parts > 2) upload["header"]["chunk_size"] = std::to_string(kPart);
      for (size_t i = 1; parts > 2 && i <= parts; ++i) upload["header"][std::to_string(i)] = Concat(place, "/", i);
      answer.back()["actions"] = {{"upload", upload}, {"verify", {{"href", At("localhost") + "/verify"}}}};
    }
    return {.body = Json{{"objects", answer}}.dump()};
  }
  HttpResponse Store(const HttpRequest& request, const std::string& place) {
    if (place.size() == 64) blobs[place] = request.body;
    parts_[place] = request.body;
    return {.body = "", .headers = {{"ETag", "tag-" + place}}};
  }
  HttpResponse Complete(const Json& asked) {
    const std::string oid = asked["oid"];
    std::string whole;
    for (const Json& part : asked["parts"]) {
      const std::string place = Concat(oid, "/", part["partNumber"].get<int>());
      if (part["etag"] != "tag-" + place) return {.status = 400};
      whole += parts_[place];
    }
    blobs[oid] = whole;
    return {.body = "{}"};
  }
  HttpResponse Commit(const std::string& lines) {
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);) {
      const Json entry = ParseJson(line, "commit"), &value = entry["value"];
      if (entry["key"] == "header") message = value["summary"];
      if (entry["key"] == "file") files[value["path"]] = value["content"];
      if (entry["key"] == "lfsFile") files[value["path"]] = blobs.at(value["oid"]);
    }
    return {.body = R"({"commitUrl": "http://hub/commit/1"})"};
  }

  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::map<std::string, std::string> parts_;
  int exists_ = 0;
  bool leaked_ = false;
  HttpServer server_;  // last: its thread uses the others
};

std::vector<UploadFile> Files() {
  std::string weights(150, 'w');
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<char>('a' + i % 26);
  return {{.path = "config.json", .file = {}, .text = "{}"},
          {.path = "model.safetensors", .file = {}, .text = weights},
          {.path = "same.safetensors", .file = {}, .text = weights},
          {.path = "tokenizer.json", .file = {}, .text = std::string(30, 't')}};
}

std::string RefusalOfPush(HubStandIn& hub) {
  try {
    hub.Client().MakeRepository(false, "main");
    hub.Client().Push(Files(), "main", "m");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(HubUploadTest, SmallFilesAreInTheCommitAndLargeOnesInTheStore) {
  HubStandIn hub;
  const HubUpload client = hub.Client();
  client.MakeRepository(true, "main");
  client.MakeRepository(true, "main");  // it exists
  const HubUpload::Pushed pushed = client.Push(Files(), "main", "all of it");
  EXPECT_EQ(pushed.page, "http://hub/commit/1");
  EXPECT_EQ(pushed.files, 4);
  EXPECT_EQ(pushed.sent_bytes, 180);  // equal files once
  EXPECT_EQ(hub.message, "all of it");
  EXPECT_EQ(hub.files.at("config.json"), "e30=");
  for (const size_t i : {1U, 2U, 3U}) EXPECT_EQ(hub.files.at(Files()[i].path), Files()[i].text);
  EXPECT_EQ(hub.Asked("/store/"), 3 + 1);
  EXPECT_EQ(hub.Asked("/verify"), 2);
  EXPECT_FALSE(hub.leaked()) << "the store has another origin, and was told the token";
}

TEST(HubUploadTest, WhatTheHubHasIsNotSentAgain) {
  HubStandIn hub;
  const std::vector<UploadFile> files = Files();
  hub.blobs[files[1].Digest(64)] = files[1].text;
  hub.files["config.json"] = "{}";
  const HubUpload::Pushed pushed = hub.Client().Push(files, "main", "m");
  EXPECT_EQ(pushed.files, 3);
  EXPECT_EQ(pushed.same, 1);
  EXPECT_EQ(pushed.sent_bytes, 30);
  EXPECT_EQ(hub.Asked("/store/"), 1);
  for (const UploadFile& file : files) hub.files[file.path] = file.text;
  EXPECT_EQ(hub.Client().Push(files, "main", "m").page, "");
  EXPECT_EQ(hub.Asked("/commit/"), 1);
}

TEST(HubUploadTest, BranchesAreMade) {
  HubStandIn hub;
  hub.Client().MakeRepository(false, "a/b");
  EXPECT_EQ(hub.Asked("POST /api/models/me/model/branch/a%2Fb"), 1);
}

TEST(HubUploadTest, FailuresThatMayGoAwayAreTriedAgain) {
  HubStandIn hub;
  hub.refuse = {{"/store/", 503}};
  EXPECT_EQ(RefusalOfPush(hub), "");
  EXPECT_EQ(hub.Asked("/store/"), 3 + 1 + 1);
}

TEST(HubUploadTest, RefusalsSayWhatToDo) {
  for (const auto& [part, status, wanted] :
       {std::tuple("/create", 401, "HF_TOKEN"), std::tuple("/create", 403, "may not write to me/model"),
        std::tuple("/preupload/", 404, "check the name"), std::tuple("/batch", 400, "because"),
        std::tuple("/store/", 403, "push again"), std::tuple("/commit/", 412, "another commit has come between")}) {
    HubStandIn hub;
    hub.refuse = {{part, status}};
    const std::string said = RefusalOfPush(hub);
    EXPECT_NE(said.find(wanted), std::string::npos) << said;
    EXPECT_EQ(said.find("secret"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace trireme
