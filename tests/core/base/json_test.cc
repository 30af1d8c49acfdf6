// JSON input, with the line of an error; JSON output, on one line.
#include "core/base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/base/error.h"

namespace trireme {
namespace {

std::string ErrorOf(const std::string& text) {
  try {
    ParseJson(text, "config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "no error";
}

TEST(JsonTest, RefusesDeepNestingAndHugeNumbers) {
  const auto nested = [](int levels) {
    return std::string(static_cast<size_t>(levels), '[') + std::string(static_cast<size_t>(levels), ']');
  };
  EXPECT_EQ(ErrorOf(nested(kDeepestJson)), "no error");
  EXPECT_EQ(ErrorOf(nested(100000)), "config.json: is nested too deeply; at most 100 levels are read");
  EXPECT_EQ(ErrorOf("\"" + std::string(1000, '[') + "\\\"[\""), "no error");  // brackets of a text
  EXPECT_EQ(ErrorOf("{\"a\": 1e999}"), "config.json: cannot be read as JSON: number overflow parsing '1e999'");
  EXPECT_TRUE(TryParseJson(nested(100000)).is_discarded());
  EXPECT_TRUE(TryParseJson("1e999").is_discarded());
  const auto keys = [](int count) {  // in each of two objects, and a string that looks like more of them
    std::string one = "{\"a\": \":{:[:\\\":\"";
    for (int i = 1; i < count; ++i) one += ",\"" + std::to_string(i) + "\":{}";
    return "[" + one + "}," + one + "}]";
  };
  EXPECT_EQ(TryParseJson(keys(6000))[1].size(), 6000u);
  EXPECT_TRUE(TryParseJson(keys(10001)).is_discarded()) << "each is searched among all before it";
  EXPECT_EQ(TryParseJson("{\"a\": [1]}")["a"][0], 1);
}

TEST(JsonTest, KeepsTheOrderOfKeys) {
  EXPECT_EQ(JsonLine(ParseJson("{\"b\": 1,\n \"a\": [1.5, null]}", "x")), "{\"b\":1,\"a\":[1.5,null]}");
}

TEST(JsonTest, ErrorNamesTheLine) {
  EXPECT_EQ(ErrorOf("{\"a\": 1,\n\"b\": }\n").substr(0, 24), "config.json:2: not JSON:");
  EXPECT_EQ(ErrorOf("{").substr(0, 24), "config.json:1: not JSON:");
  EXPECT_EQ(ErrorOf("").substr(0, 24), "config.json:1: not JSON:");
  EXPECT_EQ(ErrorOf("{}"), "no error");
}

TEST(JsonTest, LineIsAlwaysValidJson) {
  EXPECT_EQ(JsonLine({{"loss", NAN}, {"text", "a\nb"}}), "{\"loss\":null,\"text\":\"a\\nb\"}");
  EXPECT_EQ(JsonLine(Json("a\xff")), "\"a\xEF\xBF\xBD\"");
}

TEST(JsonTest, MissingFile) {
  try {
    ReadJsonFile("no/such/config.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no/such/config.json: cannot be read: No such file or directory");
  }
  EXPECT_THROW(ReadJsonFile("/"), Error);  // a directory can be opened but not read
}

}  // namespace
}  // namespace trireme
