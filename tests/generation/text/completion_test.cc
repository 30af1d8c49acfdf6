// Answers with a byte tokenizer: where they end, and which part of their text is final while they continue.
#include "generation/text/completion.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

const Tokenizer& Bytes() {
  static const Tokenizer tokenizer(TRIREME_EXAMPLE);
  return tokenizer;
}

struct Written {
  std::vector<std::string> pieces;  // as they became final
  std::string text, reason;
  size_t tokens = 0;
};

// The result of a text that the model writes token by token until the answer ends.
Written Write(const std::string& text, const CompletionRules& rules, int64_t most = 100) {
  Completion answer(rules, most, &Bytes());
  Written written;
  for (const int32_t token : Bytes().Encode(text).ids) {
    const bool goes_on = answer.Take(token);
    const std::string piece = answer.NewText();
    if (!piece.empty()) written.pieces.push_back(piece);
    if (!goes_on) break;
  }
  written.text = answer.text();
  written.reason = answer.reason();
  written.tokens = answer.ids().size();
  return written;
}

using Pieces = std::vector<std::string>;

TEST(Completion, EndsAtTheLimit) {
  const Written written = Write("abcdef", {}, 3);
  EXPECT_EQ(written.text, "abc");
  EXPECT_EQ(written.reason, "length");
  EXPECT_EQ(written.pieces, (Pieces{"a", "b", "c"}));
}

TEST(Completion, EndsAtAnEosTokenWhichIsNotInTheText) {
  const int64_t end = *Bytes().IdOf("<|im_end|>");
  const Written written = Write("ab<|im_end|>cd", {.ends = {end}});
  EXPECT_EQ(written.text, "ab");
  EXPECT_EQ(written.reason, "stop");
  EXPECT_EQ(written.tokens, 3u);
}

TEST(Completion, EndsBeforeAStopString) {
  const Written written = Write("one two three", {.stops = {"three", "two", "tw!"}});
  EXPECT_EQ(written.text, "one ");
  EXPECT_EQ(written.reason, "stop");
}

TEST(Completion, HoldsBackWhatMayBecomeAStopString) {
  EXPECT_EQ(Write("aENx", {.stops = {"END"}}).pieces, (Pieces{"a", "ENx"}));
  EXPECT_EQ(Write("aEEND", {.stops = {"END"}}).pieces, (Pieces{"a", "E"})) << "a second match may begin";
  EXPECT_EQ(Write("aEN", {.stops = {"END"}}, 3).pieces, (Pieces{"a", "EN"})) << "at the end nothing is held back";
}

TEST(Completion, EmitsNoPartialCharacter) {
  const Written written = Write("aßb", {});
  EXPECT_EQ(written.pieces, (Pieces{"a", "ß", "b"}));
  EXPECT_EQ(Write("aß", {}, 2).text, "a\xEF\xBF\xBD") << "one that was never completed";
}

TEST(Completion, WithoutATokenizerHasTokensOnly) {
  const CompletionRules rules{.ends = {9}};
  Completion answer(rules, 5, nullptr);
  EXPECT_TRUE(answer.Take(3));
  EXPECT_FALSE(answer.Take(9));
  EXPECT_EQ(answer.ids(), (std::vector<int64_t>{3, 9}));
  EXPECT_EQ(answer.text(), "");
}

}  // namespace
}  // namespace trireme
