// What a model's directory specifies about the end of answers, and conversations that are refused.
#include "generation/text/prompts.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/data/scratch.h"

namespace trireme {
namespace {

using Prompts = ScratchTest;

TEST_F(Prompts, EndTokensAreTheGenerationConfigsFirst) {
  EXPECT_TRUE(EndTokens(folder_.string(), nullptr).empty());
  const Tokenizer tokenizer(TRIREME_EXAMPLE);
  EXPECT_EQ(EndTokens(folder_.string(), &tokenizer), (std::set<int64_t>{*tokenizer.end_of_text()}));
  Write("config.json", R"({"eos_token_id": 5, "max_position_embeddings": 64})");
  EXPECT_EQ(EndTokens(folder_.string(), &tokenizer), (std::set<int64_t>{5}));
  Write("generation_config.json", R"({"eos_token_id": [7, 8]})");
  EXPECT_EQ(EndTokens(folder_.string(), &tokenizer), (std::set<int64_t>{7, 8}));
  EXPECT_EQ(MostPositions(folder_.string()), 64);
  Write("generation_config.json", R"({"eos_token_id": ["a"]})");
  EXPECT_EQ(RefusalOf([&] { EndTokens(folder_.string(), &tokenizer); }),
            "generation_config.json: eos_token_id has \"a\"; wanted whole numbers");
}

TEST_F(Prompts, ATurnEndsAtItsSpecialToken) {
  const Tokenizer tokenizer(TRIREME_EXAMPLE);
  EXPECT_EQ(TurnEnd(tokenizer, ChatTemplate::Of(tokenizer)), *tokenizer.IdOf("<|im_end|>"));
  const ChatTemplate plain("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", Json::object(),
                           "plain");
  EXPECT_EQ(TurnEnd(tokenizer, plain), std::nullopt) << "a line break does not end a turn";
}

TEST_F(Prompts, ConversationsAreOneOrSeveral) {
  const auto read = [&](const std::string& text) { return ReadConversations(Write("messages.json", text)); };
  EXPECT_FALSE(read(R"([{"role": "user", "content": "a"}])").several);
  EXPECT_EQ(read(R"([[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}]])").each.size(), 2u);
  const Conversations objects = read(R"([{"messages": [{"role": "user", "content": "a"}], "system": "s"}])");
  ASSERT_TRUE(objects.several);
  EXPECT_EQ(objects.each[0].messages.size(), 2u) << "with its system message";
  EXPECT_FALSE(read(R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "f"}]})").several);
  EXPECT_EQ(
      read(R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "f"}]})").each[0].tools[0]["name"],
      "f");
  const std::string lines =
      "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n\n"
      "[{\"role\": \"user\", \"content\": \"b\"}]\n";
  EXPECT_EQ(ReadConversations(Write("c.jsonl", lines)).each.size(), 2u);
  EXPECT_EQ(read(lines).each.size(), 2u) << "JSON lines with the other extension";
  EXPECT_TRUE(RefusalOf([&] {
                ReadConversations(Write("c.jsonl", lines + "{\"messages\": 3}\n"));
              }).starts_with("c.jsonl:4: "));
  for (const char* bad :
       {"[]", "{}", "[[]]", R"([{"role": "user"}])", R"(["hello"])", R"([{"role": "king", "content": ""}])"}) {
    EXPECT_TRUE(RefusalOf([&] { read(bad); }).starts_with("messages.json: ")) << bad;
  }
}

}  // namespace
}  // namespace trireme
