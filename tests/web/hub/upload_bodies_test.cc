// What a hub is sent, and what it answers, as texts. Whole conversations are in hub_upload_test.cc.
#include "web/hub/upload_bodies.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/base/error.h"
#include "core/base/json.h"

namespace trireme {
namespace {

const std::string kOid(64, 'b'), kOther(64, 'c');

UploadFile Text(const std::string& path, const std::string& text) { return {.path = path, .file = {}, .text = text}; }

TEST(UploadBodies, AFileIsASampleAndASize) {
  const Json body = ParseJson(ModesBody({Text("a/b.json", "hello"), Text("large", std::string(2000, 'x'))}), "body");
  ASSERT_EQ(body["files"].size(), 2U);
  EXPECT_EQ(body["files"][0], (Json{{"path", "a/b.json"}, {"sample", "aGVsbG8="}, {"size", 5}}));
  EXPECT_EQ(body["files"][1]["size"], 2000);
  EXPECT_EQ(body["files"][1]["sample"].get<std::string>().size(), 684U);  // of 512 bytes
}

TEST(UploadBodies, ModesAreReadByPath) {
  const auto modes = ParseModes(R"({"files": [{"path": "a", "uploadMode": "lfs", "shouldIgnore": false, "oid": "x"},
                                              {"path": "b", "uploadMode": "regular", "shouldIgnore": true, "oid": null}]})",
                                "hub");
  EXPECT_TRUE(modes.at("a").large);
  EXPECT_EQ(modes.at("a").known, "x");
  EXPECT_FALSE(modes.at("a").ignored);
  EXPECT_TRUE(modes.at("b").ignored);
  EXPECT_EQ(modes.at("b").known, "");
  for (const char* wrong : {"<html>", "[]", "{}", R"({"files": [{"path": "a"}]})",
                            R"({"files": [{"path": "a", "uploadMode": "pigeon"}]})"}) {
    EXPECT_THROW(ParseModes(wrong, "hub"), Error) << wrong;
  }
}

std::string StoreAnswer(const std::string& upload) {
  return R"({"objects": [{"oid": ")" + kOid + R"(", "size": 25, "actions": {"upload": )" + upload + "}}]}";
}

TEST(UploadBodies, WhatTheStoreHasIsNotAskedFor) {
  const std::vector<LargeBlob> blobs = {{kOid, 25}, {kOther, 3}};
  const Json body = ParseJson(StoreBody(blobs, "main"), "body");
  EXPECT_EQ(body["objects"][1], (Json{{"oid", kOther}, {"size", 3}}));
  EXPECT_EQ(body["transfers"], (Json{"basic", "multipart"}));
  const auto uploads = ParseStore(R"({"objects": [{"oid": ")" + kOther + R"(", "size": 3},
      {"oid": ")" + kOid + R"(", "size": 25, "actions": {"upload": {"href": "http://s/1", "header": {"A": "b"}},
                                                         "verify": {"href": "http://s/v"}}}]})",
                                  blobs, "hub");
  ASSERT_EQ(uploads.size(), 1U);
  EXPECT_EQ(uploads.at(kOid).address, "http://s/1");
  EXPECT_EQ(uploads.at(kOid).verify, "http://s/v");
  EXPECT_EQ(uploads.at(kOid).headers, (std::vector<std::pair<std::string, std::string>>{{"A", "b"}}));
}

TEST(UploadBodies, PartsComeInTheOrderOfTheirNumbers) {
  const std::vector<LargeBlob> blobs = {{kOid, 25}};
  const auto uploads = ParseStore(
      StoreAnswer(R"({"href": "http://s/end", "header": {"chunk_size": "10", "00010": "http://s/c", "2": "http://s/b",
                                                        "1": "http://s/a"}})"),
      blobs, "hub");
  EXPECT_EQ(uploads.at(kOid).part_bytes, 10);
  EXPECT_EQ(uploads.at(kOid).parts, (std::vector<std::string>{"http://s/a", "http://s/b", "http://s/c"}));
  EXPECT_EQ(ParseJson(PartsBody(kOid, {"x", "y"}), "body")["parts"][1], (Json{{"partNumber", 2}, {"etag", "y"}}));
}

TEST(UploadBodies, RefusesStoresThatDoNotTakeTheWholeFile) {
  const std::vector<LargeBlob> blobs = {{kOid, 25}};
  for (const std::string& wrong :
       {std::string("{}"), std::string("[]"), StoreAnswer("{}"), StoreAnswer(R"({"href": 3})"),
        StoreAnswer(R"({"href": "http://s/end", "header": {"chunk_size": "10", "1": "http://s/a"}})"),
        StoreAnswer(R"({"href": "http://s/end", "header": {"chunk_size": "-10"}})"),
        R"({"objects": [{"oid": ")" + kOther + R"(", "size": 3}]})"}) {
    EXPECT_THROW(ParseStore(wrong, blobs, "hub"), Error) << wrong;
  }
  try {
    ParseStore(R"({"objects": [{"oid": ")" + kOid + R"(", "error": {"code": 422, "message": "too large"}}]})", blobs,
               "hub");
    ADD_FAILURE() << "a refused file was taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("too large"), std::string::npos);
  }
}

TEST(UploadBodies, ACommitIsALineForEachFile) {
  const UploadFile small = Text("a.txt", "hi"), large = Text("w", "large");
  std::istringstream lines(CommitBody("why \"so\"", {{&small, {}}, {&large, {kOid, 5}}}));
  std::vector<Json> read;
  for (std::string line; std::getline(lines, line);) read.push_back(ParseJson(line, "line"));
  ASSERT_EQ(read.size(), 3U);
  EXPECT_EQ(read[0]["key"], "header");
  EXPECT_EQ(read[0]["value"]["summary"], "why \"so\"");
  EXPECT_EQ(read[1]["value"], (Json{{"content", "aGk="}, {"path", "a.txt"}, {"encoding", "base64"}}));
  EXPECT_EQ(read[2]["key"], "lfsFile");
  EXPECT_EQ(read[2]["value"], (Json{{"path", "w"}, {"algo", "sha256"}, {"oid", kOid}, {"size", 5}}));
  EXPECT_EQ(ParseCommit(R"({"commitUrl": "http://hub/c"})"), "http://hub/c");
  EXPECT_EQ(ParseCommit("?"), "");
}

TEST(UploadBodies, FilesAndTextsHaveTheSameDigests) {
  const auto path = std::filesystem::path(testing::TempDir()) / "upload_file";
  std::ofstream(path) << "hello";
  const UploadFile file{.path = "x", .file = path}, text = Text("x", "hello");
  EXPECT_EQ(file.Digest(40), "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0");  // git hash-object
  for (const size_t digits : {40U, 64U}) EXPECT_EQ(file.Digest(digits), text.Digest(digits));
  EXPECT_EQ(file.Read(1, 3), "ell");
  EXPECT_EQ(text.Read(1, 3), "ell");
  EXPECT_THROW(file.Read(3, 3), Error);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace trireme
