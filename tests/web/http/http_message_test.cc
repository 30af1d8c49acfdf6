// Answers of HTTP servers, taken apart: however their bytes come, and where they are broken.
#include "web/http/http_message.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace trireme {
namespace {

// The body as bytes come in parts of this size.
std::string BodyOf(const HttpHead& head, const std::string& bytes, size_t part, bool ends = true) {
  std::string taken;
  HttpBody body(head, [&](std::string_view more) { taken += more; });
  for (size_t i = 0; i < bytes.size(); i += part) body.Take(std::string_view(bytes).substr(i, part));
  EXPECT_EQ(body.MayEndHere(), ends);
  EXPECT_EQ(body.taken(), std::ssize(taken));
  return taken;
}

TEST(HttpHeadTest, IsTakenApart) {
  const HttpHead head = ParseHttpHead(
      "HTTP/1.1 302 Found\r\nLocation: https://cdn/x\r\nX-Linked-ETag:  \"abc\" \r\nlocation: "
      "/other\r\nContent-Length: 12");
  EXPECT_EQ(head.status, 302);
  EXPECT_EQ(head.reason, "302 Found");
  EXPECT_EQ(head.header("location"), "https://cdn/x");
  EXPECT_EQ(head.header("x-linked-etag"), "\"abc\"");
  EXPECT_EQ(head.header("etag"), "");
  EXPECT_EQ(head.content_length(), 12);
  EXPECT_TRUE(head.redirects());
  EXPECT_FALSE(ParseHttpHead("HTTP/1.1 302 Found").redirects());
  EXPECT_FALSE(ParseHttpHead("HTTP/1.1 200 OK\r\nLocation: /x").redirects());
}

TEST(HttpHeadTest, IsNotHttp) {
  for (const char* text : {"", "SSH-2.0-x", "HTTP/1.1", "HTTP/2 200 OK", "HTTP/1.1 OK"})
    EXPECT_EQ(ParseHttpHead(text).status, 0) << text;
  for (const char* length : {"x", "-1", "1x", "99999999999999999999", ""}) {
    EXPECT_EQ(ParseHttpHead(std::string("HTTP/1.1 200 OK\r\nContent-Length: ") + length).content_length(), -1)
        << length;
  }
}

TEST(HttpBodyTest, OfKnownLengthOrUpToTheEnd) {
  const HttpHead known = ParseHttpHead("HTTP/1.1 200 OK\r\nContent-Length: 5");
  const HttpHead open = ParseHttpHead("HTTP/1.0 200 OK");
  for (const size_t part : {1, 3, 100}) {
    EXPECT_EQ(BodyOf(known, "hello and more", part), "hello");
    EXPECT_EQ(BodyOf(known, "hell", part, /*ends=*/false), "hell");
    EXPECT_EQ(BodyOf(open, "hello and more", part), "hello and more");
  }
}

TEST(HttpBodyTest, OfALengthThatIsNone) {
  for (const char* length : {"-5", "99999999999999999999", "x", "1x"}) {
    const HttpHead head = ParseHttpHead(std::string("HTTP/1.1 200 OK\r\nContent-Length: ") + length);
    EXPECT_THROW(BodyOf(head, "hello", 3), Error) << length;
  }
}

TEST(HttpBodyTest, InChunks) {
  const HttpHead head = ParseHttpHead("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3");
  const std::string chunks = "5;name=value\r\nhello\r\nA\r\n and chunk\r\n0\r\nTrailer: x\r\n\r\n";
  for (const size_t part : {1, 2, 7, 100}) {
    EXPECT_EQ(BodyOf(head, chunks, part), "hello and chunk");
    EXPECT_EQ(BodyOf(head, chunks.substr(0, 30), part, /*ends=*/false), "hello and c");
    EXPECT_EQ(BodyOf(head, chunks.substr(0, chunks.size() - 2), part, /*ends=*/false), "hello and chunk");
  }
  for (const char* broken : {"x\r\n", "5\r\nhello!\r\n", "-5\r\n", "\r\n", "fffffffffffffffff\r\n"}) {
    EXPECT_THROW(BodyOf(head, broken, 100), Error) << broken;
  }
  EXPECT_THROW(BodyOf(head, std::string(5000, '0'), 100), Error);
}

}  // namespace
}  // namespace trireme
