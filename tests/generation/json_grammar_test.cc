// The grammar against a parser: what it accepts in full the parser reads, and what the parser reads and the grammar has
// no limit for it accepts, byte by byte; and tokens of any cut are allowed exactly if their bytes are.
#include "generation/json_grammar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <regex>

#include "core/base/error.h"
#include "core/base/json.h"
#include "generation/json_tokens.h"

namespace trireme {
namespace {

// How many bytes it takes, and whether the object is then complete.
struct Taken {
  size_t bytes = 0;
  bool complete = false;
};
Taken TakeAll(const std::string& text) {
  JsonGrammar grammar;
  Taken taken;
  for (const char byte : text) {
    if (!grammar.Take(static_cast<uint8_t>(byte))) return taken;
    taken = {taken.bytes + 1, grammar.complete()};
  }
  return taken;
}
bool IsObject(const std::string& text) {
  const Taken taken = TakeAll(text);
  return taken.bytes == text.size() && taken.complete;
}

TEST(JsonGrammar, TakesObjects) {
  for (const char* text : {"{}", " {\n}", R"({"a": 1})", R"({"a":-0.5e+10,"b":[true,false,null,[],{}]})",
                           R"({"":"\"\\\/\b\f\n\r\t\u00e9\uFFFF"})", "{\"ü\": \"日本\xF0\x9F\x98\x80\"}",
                           R"({"a": 0, "b": 10, "c": 1.0, "d": 1E5, "e": 0e1})", R"({"a": {"b": {"c": [[[1]]]}}})"}) {
    EXPECT_TRUE(IsObject(text)) << text;
    EXPECT_TRUE(TryParseJson(text).is_object()) << text;
  }
}

TEST(JsonGrammar, RefusesWhatIsNone) {
  for (const char* text : {"[1]",
                           "1",
                           "{a: 1}",
                           "{\"a\" 1}",
                           "{\"a\": }",
                           "{\"a\": 1,}",
                           "{\"a\": [1,]}",
                           "{\"a\": 01}",
                           "{\"a\": .5}",
                           "{\"a\": 1.}",
                           "{\"a\": +1}",
                           "{\"a\": 1e}",
                           "{\"a\": tru}",
                           "{\"a\": \"\n\"}",
                           "{\"a\": \"\\x\"}",
                           "{\"a\": \"\\u12g4\"}",
                           "{\"a\": 1]",
                           "{}}",
                           "{} ",
                           "{\"a\": \"\x80\"}",
                           "{\"a\": \"\xC0\x80\"}",
                           "{\"a\": \"\xED\xA0\x80\"}",
                           "{\"a\": \"\xF5\x80\x80\x80\"}",
                           "{\"a\": \"\\ud800\"}",
                           "{\"a\": --1}",
                           "{\"a\": 1 2}",
                           "{,}"}) {
    EXPECT_FALSE(IsObject(text)) << text;
  }
}

TEST(JsonGrammar, HasItsLimits) {
  const auto nested = [](int depth) {  // the object itself is one of them
    const auto arrays = static_cast<size_t>(depth - 1);
    return "{\"a\":" + std::string(arrays, '[') + std::string(arrays, ']') + "}";
  };
  EXPECT_TRUE(IsObject(nested(JsonGrammar::kMostDepth)));
  EXPECT_FALSE(IsObject(nested(JsonGrammar::kMostDepth + 1)));
  EXPECT_TRUE(IsObject("{" + std::string(JsonGrammar::kMostBlanks, ' ') + "}"));
  EXPECT_FALSE(IsObject("{" + std::string(JsonGrammar::kMostBlanks + 1, ' ') + "}"));
  EXPECT_TRUE(IsObject(" {}"));
  EXPECT_FALSE(IsObject("  {}"));
}

std::string Mutated(std::string text, std::mt19937& draw) {
  const std::string bytes = "{}[]\",:-+.019eEtfnu\\ \n\x80\xC3\xA9z";
  for (unsigned n = draw() % 3 + 1; n > 0 && !text.empty(); --n) {
    const size_t at = draw() % text.size();
    if (draw() % 2 == 0)
      text[at] = bytes[draw() % bytes.size()];
    else if (draw() % 2 == 0)
      text.erase(at, 1);
    else
      text.insert(at, 1, bytes[draw() % bytes.size()]);
  }
  return text;
}

// A parser takes blanks after the end, and no numbers that overflow: neither is in these texts.
TEST(JsonGrammar, AgreesWithAParser) {
  std::mt19937 draw(3);
  const std::string good = R"({"a": [1, -2.5e3, "x\u00e9\n"], "b": {"c": null, "d": true}, "é": 0})";
  int valid = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = Mutated(good, draw);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.pop_back();
    text.erase(0, text.find_first_not_of(" \n"));
    static const std::regex overflow("[eE][+-]?[0-9]{3}");
    if (std::regex_search(text, overflow)) continue;
    const Json parsed = TryParseJson(text);
    ASSERT_EQ(IsObject(text), parsed.is_object()) << text;
    valid += parsed.is_object() ? 1 : 0;
  }
  EXPECT_GT(valid, 1000);
  EXPECT_LT(valid, 19000);
}

TokenBytes AllBytes() {
  TokenBytes tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(std::string(1, static_cast<char>(byte)));
  return tokens;
}

TEST(JsonTokens, AreAllowedIfTheirBytesAre) {
  TokenBytes tokens = AllBytes();
  const std::string good = R"({"a": [1, -2.5e3, "x\u00e9\n"], "b": {"c": null, "dé": true}})";
  std::mt19937 draw(5);
  for (int i = 0; i < 400; ++i) {
    const size_t begin = draw() % good.size();
    tokens.emplace_back(Mutated(good.substr(begin, 1 + draw() % 6), draw));
  }
  tokens.emplace_back(std::nullopt);
  tokens.emplace_back("");
  const JsonTokens json(tokens);
  JsonGrammar state;
  for (const char byte : good) {
    std::vector<float> logits(tokens.size() + 3, 1.0f);
    json.Restrict(logits, state);
    size_t allowed = 0;
    for (size_t id = 0; id < logits.size(); ++id) {
      JsonGrammar after = state;
      bool wanted = id < tokens.size() && tokens[id] && !tokens[id]->empty();
      for (size_t i = 0; wanted && i < tokens[id]->size(); ++i)
        wanted = after.Take(static_cast<uint8_t>((*tokens[id])[i]));
      ASSERT_EQ(std::isfinite(logits[id]), wanted) << id;
      allowed += wanted ? 1 : 0;
    }
    EXPECT_GT(allowed, 0u);
    json.Take(state, static_cast<uint8_t>(byte));
  }
  EXPECT_TRUE(state.complete());
}

TEST(JsonTokens, HalfCharactersNeedTheOtherHalf) {
  TokenBytes tokens = AllBytes();
  const auto allows = [](const TokenBytes& with, int byte) {
    JsonGrammar state;
    for (const char each : std::string("{\"")) state.Take(static_cast<uint8_t>(each));
    std::vector<float> logits(with.size(), 0.0f);
    JsonTokens(with).Restrict(logits, state);
    return std::isfinite(logits[static_cast<size_t>(byte)]);
  };
  EXPECT_TRUE(allows(tokens, 0xC3));
  tokens[0x81] = std::nullopt;
  EXPECT_FALSE(allows(tokens, 0xC3)) << "what follows may have no token";
  tokens['{'] = std::nullopt;
  EXPECT_THROW(JsonTokens{tokens}, Error);
}

}  // namespace
}  // namespace trireme
