// The file, parsed back: processes, threads, times; and the encoding between ranks. Names contain what JSON
// escapes.
#include "core/trace/chrome_trace.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/json.h"

namespace trireme {
namespace {

const char kNasty[] = "F\"3\"\\.1\n\t\x01 é 漢 </script>";
constexpr int64_t kBase = 1'700'000'000'000'000'000;  // as large as real timestamps

std::vector<RankSpans> TwoRanks() {
  return {{3,
           {{"compute", "F0", kBase + 1000, kBase + 5001, {{"tokens", "512"}}},
            {"pp", kNasty, kBase + 2000, kBase + 2000, {{kNasty, kNasty}}},
            {"compute", "B0", kBase + 6000, kBase + 9000, {}}}},
          {4, {{"compute", "F0", kBase + 500, kBase + 700, {}}}}};
}

std::string PathFor(const char* name) { return testing::TempDir() + "trireme_" + name; }

std::vector<Json> EventsOf(const Json& file, const char* phase) {
  std::vector<Json> events;
  for (const Json& event : file.at("traceEvents")) {
    if (event.at("ph") == phase) events.push_back(event);
  }
  return events;
}

TEST(ChromeTrace, SpansAreCompleteEventsInMicroseconds) {
  const std::string path = PathFor("spans.json");
  WriteChromeTrace(path, TwoRanks());
  const std::vector<Json> spans = EventsOf(ReadJsonFile(path), "X");
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_EQ(spans[0].at("name"), "F0");
  EXPECT_EQ(spans[0].at("pid"), 3);
  EXPECT_DOUBLE_EQ(spans[0].at("ts"), 0.5);
  EXPECT_DOUBLE_EQ(spans[0].at("dur"), 4.001);
  EXPECT_EQ(spans[0].at("args").at("tokens"), "512");
  EXPECT_EQ(spans[1].at("name"), kNasty);
  EXPECT_EQ(spans[1].at("args").at(kNasty), kNasty);
  EXPECT_DOUBLE_EQ(spans[1].at("dur"), 0);
  EXPECT_DOUBLE_EQ(spans[2].at("ts"), 5.5);
  EXPECT_EQ(spans[2].at("tid"), spans[0].at("tid"));
  EXPECT_NE(spans[1].at("tid"), spans[0].at("tid"));
  EXPECT_EQ(spans[3].at("pid"), 4);
  EXPECT_DOUBLE_EQ(spans[3].at("ts"), 0);
}

TEST(ChromeTrace, RanksAndLanesHaveNames) {
  const std::string path = PathFor("names.json");
  WriteChromeTrace(path, TwoRanks());
  std::vector<std::string> processes, threads;
  for (const Json& event : EventsOf(ReadJsonFile(path), "M")) {
    if (event.at("name") == "process_name") processes.push_back(event.at("args").at("name"));
    if (event.at("name") == "thread_name") {
      threads.push_back(
          Concat(event.at("pid"), ".", event.at("tid"), " ", event.at("args").at("name").get<std::string>()));
    }
  }
  EXPECT_EQ(processes, (std::vector<std::string>{"rank 3", "rank 4"}));
  EXPECT_EQ(threads, (std::vector<std::string>{"3.0 compute", "3.1 pp", "4.0 compute"}));
}

TEST(ChromeTrace, NothingRecordedIsStillAFile) {
  const std::string path = PathFor("empty.json");
  WriteChromeTrace(path, {{0, {}}});
  EXPECT_TRUE(EventsOf(ReadJsonFile(path), "X").empty());
  WriteChromeTrace(path, {});
  EXPECT_TRUE(ReadJsonFile(path).at("traceEvents").empty());
}

TEST(ChromeTrace, ReplacesTheFileAndLeavesNoTemporaryFile) {
  const std::string folder = PathFor("folder");
  std::filesystem::create_directories(folder);
  WriteChromeTrace(folder + "/trace.json", TwoRanks());
  WriteChromeTrace(folder + "/trace.json", {});
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  EXPECT_TRUE(ReadJsonFile(folder + "/trace.json").at("traceEvents").empty());
}

TEST(ChromeTrace, AFileThatCannotBeWrittenIsAnError) {
  try {
    WriteChromeTrace("/no/such/folder/trace.json", {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "/no/such/folder/trace.json: cannot be created: No such file or directory");
  }
}

TEST(EncodeSpans, ReadBackEqual) {
  for (const RankSpans& rank : TwoRanks()) EXPECT_EQ(DecodeSpans(EncodeSpans(rank.spans)), rank.spans);
  EXPECT_TRUE(DecodeSpans(EncodeSpans({})).empty());
  const std::vector<RankSpans> ranks = DecodeRanks({EncodeSpans(TwoRanks()[0].spans), EncodeSpans({})});
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[0].rank, 0);
  EXPECT_EQ(ranks[0].spans, TwoRanks()[0].spans);
  EXPECT_EQ(ranks[1].rank, 1);
}

TEST(EncodeSpans, IsCompactAndOneLine) {
  std::vector<TraceSpan> spans;
  for (int i = 0; i < 1000; ++i) spans.push_back({"compute", "F0.0", kBase + i * 1000, kBase + i * 1000 + 500, {}});
  const std::string text = EncodeSpans(spans);
  EXPECT_LT(text.size(), 30u * spans.size());
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(EncodeSpans, InvalidUtf8IsReplaced) {
  EXPECT_EQ(DecodeSpans(EncodeSpans({{"a", "x\xff", 0, 1, {}}}))[0].name, "x\uFFFD");
}

TEST(EncodeSpans, RefusesWhatIsNotATrace) {
  for (const char* text : {"", "{}", "[]", "{\"start\":0,\"lanes\":[],\"spans\":[[0,\"a\",0,1,[]]]}",
                           "{\"start\":0,\"lanes\":[\"a\"],\"spans\":[[0,\"a\",0,1,[\"key\"]]]}"}) {
    EXPECT_THROW(DecodeSpans(text), Error) << text;
  }
}

}  // namespace
}  // namespace trireme
