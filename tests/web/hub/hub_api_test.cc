// What hubs answer, taken apart. Whole conversations with a server are in tests/parity/hub_test.py.
#include "web/hub/hub_api.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace trireme {
namespace {

const std::string kCommit(40, 'a'), kSha256(64, 'b');

HttpHead Head(const std::string& headers, const std::string& first = "200 OK") {
  return ParseHttpHead("HTTP/1.1 " + first + "\r\n" + headers);
}

TEST(HubApiTest, ListsFiles) {
  const HubListing listing =
      ParseHubListing(R"({"id": "a/b", "sha": ")" + kCommit +
                          R"(", "siblings": [{"rfilename": "config.json", "size": 3}, {"other": 1}]})",
                      "hub");
  EXPECT_EQ(listing.commit, kCommit);
  EXPECT_EQ(listing.files, std::vector<std::string>{"config.json"});
}

TEST(HubApiTest, RefusesOtherLists) {
  // A commit becomes the name of a directory.
  for (const std::string& answer :
       {std::string("<html>"), std::string("[]"), std::string("{}"), R"({"sha": ")" + kCommit + R"("})",
        std::string(R"({"sha": "../../x", "siblings": []})"), std::string(R"({"sha": 1, "siblings": []})")}) {
    EXPECT_THROW(ParseHubListing(answer, "hub"), Error) << answer;
  }
}

TEST(HubApiTest, DescribesFiles) {
  const HubFile small = ParseHubFile("config.json", Head("ETag: W/\"" + kCommit + "\"\r\nContent-Length: 17"), "hub");
  EXPECT_EQ(small.digest, kCommit);
  EXPECT_EQ(small.size, 17);
  // The redirection to a storage server has a body of its own.
  const std::string linked = "Location: https://cdn/x\r\nETag: \"other\"\r\nX-Linked-Etag: \"" + kSha256 +
                             "\"\r\nX-Linked-Size: 5000000000\r\nContent-Length: 1000";
  const HubFile large = ParseHubFile("model.safetensors", Head(linked, "302 Found"), "hub");
  EXPECT_EQ(large.digest, kSha256);
  EXPECT_EQ(large.size, 5'000'000'000);
}

TEST(HubApiTest, RefusesFilesWithoutADigestOrSize) {
  // A digest becomes the name of a file.
  for (const char* headers :
       {"Content-Length: 17\r\nETag: \"../../../x\"", "Content-Length: 17", "Content-Length: 17\r\nETag: \"abc\""}) {
    EXPECT_THROW(ParseHubFile("config.json", Head(headers), "hub"), Error) << headers;
  }
  EXPECT_THROW(ParseHubFile("config.json", Head("ETag: \"" + kCommit + "\""), "hub"), Error);
  EXPECT_THROW(
      ParseHubFile("x", Head("Location: /x\r\nContent-Length: 9\r\nETag: \"" + kCommit + "\"", "302 Found"), "hub"),
      Error);
}

}  // namespace
}  // namespace trireme
