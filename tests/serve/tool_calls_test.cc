// Tool calls in the forms of three families: whole, cut into pieces of every size, several of them, broken ones, and
// text that only looks like one. Whatever is no call comes out as content, to the last byte but blanks around calls.
#include "serve/tool_calls.h"

#include <gtest/gtest.h>

#include "core/base/json.h"

namespace trireme {
namespace {

struct Read {
  std::string content;
  std::vector<ToolCall> calls;
};

// In pieces of `size` bytes.
Read ReadAll(const std::string& form, const std::string& text, size_t size) {
  ToolCallReader reader(FindToolForm(form));
  Read read;
  const auto take = [&](const ToolPiece& piece) {
    read.content += piece.content;
    read.calls.insert(read.calls.end(), piece.calls.begin(), piece.calls.end());
  };
  for (size_t at = 0; at < text.size(); at += size) take(reader.Take(text.substr(at, size)));
  take(reader.Finish());
  EXPECT_EQ(reader.found(), !read.calls.empty());
  return read;
}

struct Case {
  const char* form;
  std::string text, content;
  std::vector<std::pair<std::string, std::string>> calls;
};

const std::string kBegin = "<｜tool▁calls▁begin｜>", kEnd = "<｜tool▁calls▁end｜>", kOne = "<｜tool▁call▁begin｜>",
                  kOneEnd = "<｜tool▁call▁end｜>", kSep = "<｜tool▁sep｜>";

std::vector<Case> Cases() {
  return {
      {"hermes", "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>", "", {{"f", R"({"a":1})"}}},
      {"hermes",
       "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", "
       "\"arguments\": {\"b\": [1, \"x\"]}}\n</tool_call>",
       "Let me see.",
       {{"f", "{}"}, {"g", R"({"b":[1,"x"]})"}}},
      {"hermes",
       "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call>\"}}</tool_call>",
       "",
       {{"f", R"({"a":"</tool_call>"})"}}},
      {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 2}\"}", "", {{"f", R"({"a":2})"}}},
      {"hermes", "<tool_call>nonsense</tool_call> and more", "<tool_call>nonsense</tool_call> and more", {}},
      {"hermes",
       "<tool_call>no</tool_call><tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
       "<tool_call>no</tool_call>",
       {{"f", "{}"}}},
      {"hermes", "a < b and <tool", "a < b and <tool", {}},
      {"hermes", "Nothing to call.\n", "Nothing to call.\n", {}},
      {"llama3_json", "{\"name\": \"f\", \"parameters\": {\"a\": \"ü\"}}", "", {{"f", R"({"a":"ü"})"}}},
      {"llama3_json",
       "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {\"s\": \"a;b\"}}",
       "",
       {{"f", "{}"}, {"g", R"({"s":"a;b"})"}}},
      {"llama3_json", "{\"answer\": 42}", "{\"answer\": 42}", {}},
      {"llama3_json", "A set {\"name\": \"f\", \"parameters\": {}}", "A set {\"name\": \"f\", \"parameters\": {}}", {}},
      {"deepseek_v3",
       "Ja." + kBegin + kOne + "function" + kSep + "f\n```json\n{\"a\": 1}\n```" + kOneEnd + "\n" + kOne + "function" +
           kSep + "g\n```json\n{}\n```" + kOneEnd + kEnd,
       "Ja.",
       {{"f", R"({"a":1})"}, {"g", "{}"}}},
      {"deepseek_v3", kBegin + kOne + "f" + kSep + "{\"a\": 1}" + kOneEnd, "", {{"f", R"({"a":1})"}}},
      {"deepseek_v3",
       kBegin + kOne + "function" + kSep + "f\n```json\n{\"a\"",
       kBegin + kOne + "function" + kSep + "f\n```json\n{\"a\"",
       {}},
  };
}

TEST(ToolCalls, AreFoundInPiecesOfAnySize) {
  for (const Case& c : Cases()) {
    for (size_t size = 1; size <= c.text.size(); ++size) {
      const Read read = ReadAll(c.form, c.text, size);
      EXPECT_EQ(read.content, c.content) << c.text << " in pieces of " << size;
      ASSERT_EQ(read.calls.size(), c.calls.size()) << c.text << " in pieces of " << size;
      for (size_t i = 0; i < read.calls.size(); ++i) {
        EXPECT_EQ(read.calls[i].name, c.calls[i].first);
        EXPECT_EQ(read.calls[i].arguments, c.calls[i].second);
      }
    }
  }
}

TEST(ToolCalls, TextIsGivenAsSoonAsItIsNoMark) {
  ToolCallReader reader(FindToolForm("hermes"));
  EXPECT_EQ(reader.Take("a <").content, "a");
  EXPECT_EQ(reader.Take("b").content, " <b");
  EXPECT_EQ(reader.Take(" <tool_ca").content, "");
  EXPECT_EQ(reader.Take("ll>{").content, "");
}

TEST(ToolCalls, TheFormIsThatOfTheTemplate) {
  EXPECT_EQ(ToolFormOf("{% if tools %}<tool_call>{% endif %}"), FindToolForm("hermes"));
  EXPECT_EQ(ToolFormOf("{{ tools }} " + kBegin), FindToolForm("deepseek_v3"));
  EXPECT_EQ(ToolFormOf("{{ tools }} {\"name\": .., \"parameters\": ..}"), FindToolForm("llama3_json"));
  EXPECT_EQ(ToolFormOf("<tool_call> without the word"), nullptr);
  EXPECT_EQ(ToolFormOf("{{ tools }}"), nullptr);
  EXPECT_EQ(FindToolForm("unknown"), nullptr);
}

}  // namespace
}  // namespace trireme
