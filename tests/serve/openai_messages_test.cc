// Messages and tools of requests: what templates get, and what is refused under its own name.
#include "serve/openai_messages.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

struct Read {
  Json messages;
  std::vector<MessageImage> images;
};

Read ReadWithImages(const char* text, int64_t most) {
  const Json body = {{"messages", Json::parse(text)}};
  Fields fields(body, "");
  Read read;
  read.messages = ReadMessages(fields, most, read.images);
  return read;
}

Json MessagesOf(const char* text) { return ReadWithImages(text, 0).messages; }

Json ToolsOf(const char* text) {
  const Json body = {{"tools", Json::parse(text)}};
  Fields fields(body, "");
  return ReadTools(fields);
}

// The field that is refused; empty: none is.
template <typename Call>
std::string Refused(const Call& call) {
  try {
    call();
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status, 400);
    return error.param;
  }
  return "";
}

TEST(Messages, ToolCallsGetObjects) {
  const Json messages = MessagesOf(
      R"([{"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
          {"role": "assistant", "content": null,
           "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"z\": 1, \"a\": 2}"}}]},
          {"role": "tool", "tool_call_id": "c1", "content": "3"}])");
  EXPECT_EQ(messages[0], Json::parse(R"({"role": "system", "content": "ab"})"));
  EXPECT_TRUE(messages[1]["content"].is_null());
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["arguments"].dump(), R"({"z":1,"a":2})");
  EXPECT_EQ(messages[2]["tool_call_id"], "c1");
  EXPECT_EQ(WithArgumentsAsText(messages)[1]["tool_calls"][0]["function"]["arguments"], R"({"z":1,"a":2})");
}

TEST(Messages, WhatIsWrongIsNamed) {
  const auto of = [](const char* text) { return Refused([&] { MessagesOf(text); }); };
  EXPECT_EQ(of("[]"), "messages");
  EXPECT_EQ(of("{}"), "messages");
  EXPECT_EQ(of("[1]"), "messages[0]");
  EXPECT_EQ(of(R"([{"role": "king", "content": "x"}])"), "messages[0].role");
  EXPECT_EQ(of(R"([{"role": "user"}])"), "messages[0].content");
  EXPECT_EQ(of(R"([{"role": "user", "content": [{"type": "image_url"}]}])"), "messages[0].content[0]");
  EXPECT_EQ(of(R"([{"role": "user", "content": [{"type": "text", "text": ""}, {"type": 3}]}])"),
            "messages[0].content[1]");
  EXPECT_EQ(of(R"([{"role": "user", "content": "x", "tool_calls": [{}]}])"), "messages[0].tool_calls");
  EXPECT_EQ(of(R"([{"role": "user", "content": "x", "tool_call_id": "c"}])"), "messages[0].tool_call_id");
  EXPECT_EQ(of(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}])"),
            "messages[0].tool_calls[0].function.arguments");
  EXPECT_EQ(of(R"([{"role": "assistant", "tool_calls": [{"function": {"name": "a b"}}]}])"),
            "messages[0].tool_calls[0].function.name");
  EXPECT_EQ(of(R"([{"role": "user", "content": "x", "contnet": "y"}])"), "messages[0].contnet");
}

TEST(Messages, ImagesKeepTheirPlaces) {
  const Read read = ReadWithImages(
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"},
           {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "auto"}}, {"type": "text", "text": "c"}]},
          {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/webp;base64,BB=="}}]}])",
      2);
  EXPECT_EQ(read.messages[0]["content"].dump(),
            R"([{"type":"text","text":"ab"},{"type":"image"},{"type":"text","text":"c"}])");
  ASSERT_EQ(read.images.size(), 2u);
  EXPECT_EQ(read.images[0].url, "data:image/png;base64,AA==");
  EXPECT_EQ(read.images[0].param, "messages[0].content[2].image_url");
  EXPECT_EQ(read.images[1].param, "messages[1].content[0].image_url");
}

// Addresses, files and what is not an image would make the server a tool of whoever asks.
TEST(Messages, ImagesComeWithTheRequest) {
  const auto of = [](const std::string& part, int64_t most = 1, const std::string& role = "user") {
    const std::string text = R"([{"role": ")" + role + R"(", "content": [)" + part + "]}]";
    return Refused([&] { ReadWithImages(text.c_str(), most); });
  };
  const std::string url = "messages[0].content[0].image_url.url",
                    good = R"({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}})";
  EXPECT_EQ(of(good), "");
  for (const char* bad :
       {"http://169.254.169.254/latest", "https://example.org/a.png", "file:///etc/passwd", "/etc/passwd", "a.png",
        "ftp://a", "data:text/plain;base64,AA==", "data:image/png,AA", "DATA:image/png;base64,AA==", ""}) {
    EXPECT_EQ(of(std::string(R"({"type": "image_url", "image_url": {"url": ")") + bad + R"("}})"), url) << bad;
  }
  EXPECT_EQ(of(R"({"type": "image_url", "image_url": "data:image/png;base64,AA=="})"),
            "messages[0].content[0].image_url");
  EXPECT_EQ(of(R"({"type": "image_url"})"), "messages[0].content[0].image_url");
  EXPECT_EQ(of(R"({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}})"),
            "messages[0].content[0].image_url.detail");
  EXPECT_EQ(of(R"({"type": "image", "image": "/etc/passwd"})"), "messages[0].content[0]");
  EXPECT_EQ(of(good + "," + good), "messages[0].content[1]") << "more than allowed";
  EXPECT_EQ(of(good, 0), "messages[0].content[0]") << "a model that does not see";
  EXPECT_EQ(of(good, 1, "system"), "messages[0].content[0]");
}

TEST(Tools, AreFunctions) {
  EXPECT_TRUE(ToolsOf("[]").is_null());
  const Json tools = ToolsOf(
      R"([{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": false}}])");
  EXPECT_EQ(tools.dump(),
            R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}])");
  const auto of = [](const char* text) { return Refused([&] { ToolsOf(text); }); };
  EXPECT_EQ(of("3"), "tools");
  EXPECT_EQ(of(R"([{"type": "retrieval"}])"), "tools[0].type");
  EXPECT_EQ(of(R"([{"type": "function"}])"), "tools[0].function");
  EXPECT_EQ(of(R"([{"type": "function", "function": {}}])"), "tools[0].function.name");
  EXPECT_EQ(of(R"([{"type": "function", "function": {"name": "f", "parameters": 3}}])"),
            "tools[0].function.parameters");
  EXPECT_EQ(of(R"([{"type": "function", "function": {"name": "f", "strict": true}}])"), "tools[0].function.strict");
}

}  // namespace
}  // namespace trireme
