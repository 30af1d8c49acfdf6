// Every format that a record may have, and the errors for those without a known format.
#include "data/samples.h"

#include "core/base/error.h"
#include "data/records.h"
#include "tests/data/scratch.h"

namespace trireme {
namespace {

class Samples : public ScratchTest {
 protected:
  static Json MessagesOf(const std::string& record, const SampleOptions& options = {}) {
    return std::get<Conversation>(ReadSample(Json::parse(record), options)).messages;
  }
  std::string Refused(const std::string& record, const SampleOptions& options = {}) const {
    return RefusalOf([&] { ReadSample(Json::parse(record), options); });
  }
  static std::string Plain(const Json& messages) {
    std::string text;
    for (const Json& message : messages) {
      text += message["role"].get<std::string>().substr(0, 1) + ":" + message["content"].get<std::string>() + " ";
    }
    return text;
  }
};

TEST_F(Samples, ConversationsUnderAllTheirNames) {
  EXPECT_EQ(
      Plain(MessagesOf(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})")),
      "u:q a:a ");
  EXPECT_EQ(
      Plain(MessagesOf(
          R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}], "system": "s"})")),
      "s:s u:q a:a ");
  EXPECT_EQ(
      Plain(MessagesOf(R"({"conversation": [{"human": "q", "assistant": "a"}, {"human": "r", "assistant": "b"}]})")),
      "u:q a:a u:r a:b ");
  EXPECT_EQ(Plain(MessagesOf(R"({"messages": "[{\"role\": \"user\", \"content\": \"q\"}]"})")), "u:q ");
}

TEST_F(Samples, QuestionsAndAnswers) {
  EXPECT_EQ(Plain(MessagesOf(R"({"query": "q", "response": "a", "history": [["x", "y"]], "system": "s"})")),
            "s:s u:x a:y u:q a:a ");
  EXPECT_EQ(Plain(MessagesOf(R"({"prompt": "q", "completion": "a"})")), "u:q a:a ");
  EXPECT_EQ(Plain(MessagesOf(R"({"question": "q", "answer": 4})")), "u:q a:4 ");
  EXPECT_EQ(Plain(MessagesOf(R"({"instruction": "do", "input": "this", "output": "a"})")), "u:do\nthis a:a ");
  EXPECT_EQ(Plain(MessagesOf(R"({"instruction": "do", "input": "", "output": "a"})")), "u:do a:a ");
  EXPECT_EQ(Plain(MessagesOf(R"({"instruction": "do", "output": "a"})")), "u:do a:a ");
  EXPECT_EQ(Plain(MessagesOf(R"({"frage": "q", "antwort": "a"})",
                             {.columns = {{"frage", "query"}, {"antwort", "response"}}, .system = "s"})),
            "s:s u:q a:a ");
}

TEST_F(Samples, ToolsAsTheTemplatesExpectThem) {
  const Json messages = MessagesOf(R"({"messages": [{"role": "user", "content": "q"},
    {"role": "tool_call", "content": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"},
    {"role": "tool_response", "content": "r"}, {"role": "assistant", "content": "a", "loss": false}]})");
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["arguments"]["x"], 1);
  EXPECT_EQ(messages[2]["role"], "tool");
  EXPECT_EQ(messages[3]["loss"], false);
  const Sample sample =
      ReadSample(Json::parse(R"({"query": "q", "response": "a", "tools": "[{\"name\": \"f\"}]"})"), {});
  EXPECT_EQ(std::get<Conversation>(sample).tools[0]["name"], "f");
}

TEST_F(Samples, VariablesOfTheChatTemplate) {
  const auto variables = [](const std::string& more) {
    const Json record = Json::parse(R"({"query": "q", "response": "a")" + more + "}");
    return std::get<Conversation>(ReadSample(record, {})).variables;
  };
  EXPECT_EQ(variables(""), Json::object());
  EXPECT_EQ(variables(R"(, "enable_thinking": false)"), (Json{{"enable_thinking", false}}));
  EXPECT_EQ(variables(R"(, "chat_template_kwargs": {"a": [1]}, "enable_thinking": true)"),
            (Json{{"a", {1}}, {"enable_thinking", true}}));
  EXPECT_EQ(variables(R"(, "chat_template_kwargs": "{\"a\": 2}")"), (Json{{"a", 2}}));
  EXPECT_THROW(variables(R"(, "chat_template_kwargs": [1])"), Error);
  EXPECT_THROW(variables(R"(, "enable_thinking": "no")"), Error);
}

TEST_F(Samples, TextAndTokens) {
  EXPECT_EQ(std::get<PlainText>(ReadSample(Json::parse(R"({"text": "t"})"), {})).text, "t");
  const auto row = std::get<StoredRow>(ReadSample(Json::parse(R"({"input_ids": [1, 2], "labels": [-100, 2]})"), {}));
  EXPECT_EQ(row.labels, (std::vector<int32_t>{-100, 2}));
  EXPECT_EQ(std::get<StoredRow>(ReadSample(Json::parse(R"({"input_ids": [1, 2]})"), {})).labels,
            (std::vector<int32_t>{1, 2}));
}

TEST_F(Samples, WeightsComeWithTokens) {
  const auto row =
      std::get<StoredRow>(ReadSample(Json::parse(R"({"input_ids": [1, 2, 3], "loss_scale": [1, 0, 0.5]})"), {}));
  EXPECT_EQ(row.weights, (std::vector<float>{1, 0, 0.5}));
  EXPECT_EQ(row.labels, (std::vector<int32_t>{1, -100, 3}));
  EXPECT_EQ(Refused(R"({"input_ids": [1, 2], "weights": [1]})"),
            "weights is [1]; wanted a list of 2 numbers, one per label");
  EXPECT_EQ(Refused(R"({"input_ids": [1, 2], "weights": [1, -1]})"), "weights has -1; wanted numbers of at least 0");
}

TEST_F(Samples, RefusesALossThatNothingTrains) {
  const auto said = [](const std::string& role, const std::string& loss) {
    return R"({"messages": [{"role": ")" + role + R"(", "content": "{\"name\": \"f\"}", "loss": )" + loss +
           R"(}, {"role": "assistant", "content": "a"}]})";
  };
  EXPECT_EQ(Refused(said("user", "true")),
            "message 1 has the role user and a loss; only the assistant's messages are trained: remove the key, or set "
            "data.loss to all");
  EXPECT_EQ(Refused(said("tool_call", "0.5")).substr(0, 49), "message 1 has the role tool_call and a loss; only");
  for (const char* harmless : {"false", "0", "null"}) EXPECT_NO_THROW(MessagesOf(said("user", harmless))) << harmless;
}

TEST_F(Samples, SaysWhatIsWrong) {
  EXPECT_EQ(Refused(R"({"a": 1, "b": 2})").substr(0, 44), "has no known format: its keys are a, b; want");
  EXPECT_EQ(Refused(R"({"query": "q", "x": 1})"), "has a question but no answer: its keys are query, x");
  EXPECT_EQ(Refused(R"({"question": "q", "prompt": "p", "answer": "a"})"),
            "has both 'prompt' and 'question'; choose which one is 'query' with data.columns: [question=query]");
  EXPECT_EQ(Refused(R"({"messages": []})"), "its messages are []; wanted a list with at least one");
  EXPECT_EQ(Refused(R"({"messages": [{"role": "pirate", "content": "x"}]})"),
            "has a message of the role \"pirate\"; wanted system, user, assistant or tool");
  EXPECT_EQ(Refused(R"({"messages": [{"role": "user", "content": 7}]})"),
            "message 1 has the content 7; wanted a string");
  EXPECT_EQ(Refused(R"({"messages": [{"role": "user"}]})"),
            "has the message {\"role\":\"user\"}; wanted a role and a content");
  EXPECT_EQ(Refused(R"({"input_ids": [1, -1]})"), "input_ids has -1; wanted a token's id");
  EXPECT_EQ(Refused(R"({"input_ids": [1], "labels": [1, 2]})"), "1 input_ids and 2 labels; wanted equally many");
}

TEST_F(Samples, ContentsThatAreNullOrInParts) {
  EXPECT_EQ(Plain(MessagesOf(R"({"messages": [{"role": "system", "content": null},
    {"role": "user", "content": [{"type": "text", "text": "one "}, {"text": "two"}, " three"]},
    {"role": "assistant", "content": []}]})")),
            "s: u:one two three a: ");
  const Json called = MessagesOf(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant",
    "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}]})");
  EXPECT_TRUE(called[1]["content"].is_null()) << "templates recognise calls by it";
}

TEST_F(Samples, RefusesImagesInsteadOfTrainingTheirPlaceholders) {
  const std::string refused = Refused(R"({"query": "<image>what?", "response": "a", "images": ["a.png"]})");
  EXPECT_EQ(refused.substr(0, 40), "has 'images', which would be lost: image");
  EXPECT_EQ(Refused(R"({"messages": [{"role": "user", "content": "q", "images": ["a.png"]}]})"), refused);
  EXPECT_EQ(Refused(R"({"query": "q", "response": "a", "video": "a.mp4"})").substr(0, 11), "has 'video'");
  EXPECT_EQ(Refused(R"({"messages": [{"role": "user", "content":
    [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": "a.png"}}]}]})")
                .substr(0, 41),
            "message 1 has a part that is not text: {\"");
  EXPECT_EQ(Plain(MessagesOf(R"({"query": "q", "response": "a", "images": [], "audio": null, "image": ""})")),
            "u:q a:a ");
  EXPECT_EQ(Plain(MessagesOf(R"({"query": "q", "response": "a", "image": "x"})", {.columns = {{"image", "unused"}}})),
            "u:q a:a ");
}

TEST_F(Samples, RecordsOfEveryKindOfFile) {
  const auto lines = OpenRecords(Write("a.jsonl", "\xEF\xBB\xBF{\"a\": 1}\r\n\n{\"a\": 2}"));
  EXPECT_EQ(lines->size(), 2);
  EXPECT_EQ(lines->Read(1)["a"], 2);
  EXPECT_EQ(lines->Where(1), (folder_ / "a.jsonl:3").string());
  EXPECT_EQ(OpenRecords(Write("a.json", " [{\"a\": 1}, {\"a\": 3}]"))->Read(1)["a"], 3);
  EXPECT_EQ(OpenRecords(Write("b.json", "{\"a\": 1}\n{\"a\": 4}"))->Read(1)["a"], 4);
  EXPECT_EQ(OpenRecords(Write("c.json", "\xEF\xBB\xBF[{\"a\": 5}]"))->Read(0)["a"], 5);
  EXPECT_EQ(OpenRecords(Write("a.txt", "one\n\ntwo\n"))->Read(1)["text"], "two");
  const auto table = OpenRecords(Write("a.csv", "query,response\r\n\"a, \"\"b\"\"\nc\",d\n,\"\"\n"));
  ASSERT_EQ(table->size(), 2);
  EXPECT_EQ(table->Read(0)["query"], "a, \"b\"\nc");
  EXPECT_EQ(table->Read(0)["response"], "d");
  EXPECT_EQ(table->Read(1)["response"], "");
  EXPECT_EQ(OpenRecords(Write("a.tsv", "x\ty\n1\t2"))->Read(0)["y"], "2");
}

// By Python's gzip.compress.
const std::string kTwoLines(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\x56\x2a\x49\xad\x28\x51\xb2\x52\x50\x4a\x54\xaa\xe5\xaa\x86\xf3\x92"
    "\x80\x3c"
    "\x00\x3d\xbd\xe6\x10\x1c\x00\x00\x00",
    39);

TEST_F(Samples, CompressedByGzip) {
  const auto records = OpenRecords(Write("a.jsonl.gz", kTwoLines + kTwoLines));  // two members
  ASSERT_EQ(records->size(), 4);
  EXPECT_EQ(records->Read(3)["text"], "b");
  EXPECT_EQ(records->Where(2), (folder_ / "a.jsonl.gz").string() + ":3");
  EXPECT_EQ(OpenRecords(Write("a.json.gz", kTwoLines))->Read(1)["text"], "b");
  EXPECT_EQ(OpenRecords(Write("a.txt.gz", kTwoLines))->size(), 2);
  EXPECT_TRUE(HoldsRecords("a.jsonl.gz"));
  EXPECT_FALSE(HoldsRecords("a.gz"));
}

TEST_F(Samples, RefusesDamagedGzip) {
  const auto refusal = [&](const std::string& bytes) {
    return RefusalOf([&] { OpenRecords(Write("b.jsonl.gz", bytes)); });
  };
  for (const size_t size : {5, 20, 33, 38}) {
    EXPECT_EQ(refusal(kTwoLines.substr(0, size)), "b.jsonl.gz: is truncated; check it with: gzip -t") << size;
  }
  std::string damaged = kTwoLines;
  damaged[33] ^= 1;  // of its digest
  EXPECT_EQ(refusal(damaged), "b.jsonl.gz: is damaged: its digest does not match; check it with: gzip -t");
  EXPECT_EQ(refusal("{}\n{}\n and more that is not compressed"),
            "b.jsonl.gz: is not a gzip file, or is damaged; check it with: gzip -t");
  const std::string packed = refusal(kTwoLines + "text");
  EXPECT_NE(packed, "accepted");
}

// By zstd --check, of the same two lines.
const std::string kTwoLinesByZstd(
    "\x28\xb5\x2f\xfd\x24\x1c\xc5\x00\x00\x90\x7b\x22\x74\x65\x78\x74\x22\x3a\x20\x22\x61\x22\x7d\x0a\x62\x22\x7d\x0a"
    "\x01\x00\xb1\x4d\x25\x78\x7d\x3d\x1a",
    37);

TEST_F(Samples, CompressedByZstd) {
  // Two frames, and between them one that holds no data, as tools put their own notes into a file.
  const std::string skippable(
      "\x50\x2a\x4d\x18\x03\x00\x00\x00"
      "abc",
      11);
  const auto records = OpenRecords(Write("a.jsonl.zst", kTwoLinesByZstd + skippable + kTwoLinesByZstd));
  ASSERT_EQ(records->size(), 4);
  EXPECT_EQ(records->Read(3)["text"], "b");
  EXPECT_EQ(records->Where(2), (folder_ / "a.jsonl.zst").string() + ":3");
  EXPECT_EQ(OpenRecords(Write("a.json.zst", kTwoLinesByZstd))->Read(1)["text"], "b");
  EXPECT_EQ(OpenRecords(Write("a.txt.zst", kTwoLinesByZstd))->size(), 2);
  EXPECT_TRUE(HoldsRecords("a.jsonl.zst"));
  EXPECT_FALSE(HoldsRecords("a.zst"));
}

TEST_F(Samples, RefusesDamagedZstd) {
  const auto refusal = [&](const std::string& bytes) {
    return RefusalOf([&] { OpenRecords(Write("b.jsonl.zst", bytes)); });
  };
  for (size_t size = 0; size < kTwoLinesByZstd.size(); ++size) {
    EXPECT_EQ(refusal(kTwoLinesByZstd.substr(0, size)), "b.jsonl.zst: is truncated; check it with: zstd -t") << size;
  }
  EXPECT_EQ(refusal(kTwoLinesByZstd + kTwoLinesByZstd.substr(0, 9)),
            "b.jsonl.zst: is truncated; check it with: zstd -t");
  std::string damaged = kTwoLinesByZstd;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);  // of its digest
  EXPECT_EQ(refusal(damaged), "b.jsonl.zst: is damaged: its digest does not match; check it with: zstd -t");
  const std::string other =
      "b.jsonl.zst: is not a zstd file, or has other bytes after its frames; check it with: zstd -t";
  EXPECT_EQ(refusal("{}\n{}\n and more that is not compressed"), other);
  EXPECT_EQ(refusal(kTwoLines), other);  // gzip's
  EXPECT_EQ(refusal(kTwoLinesByZstd + "text"), other);
}

TEST_F(Samples, ReportsWhereAFileIsBroken) {
  EXPECT_EQ(RefusalOf([&] { OpenRecords(Write("a.jsonl", "{}\n\n{\"a\": \n"))->Read(1); }),
            "a.jsonl:3: is not a JSON object: {\"a\": ; repair the line, or set data.on_error to skip");
  EXPECT_EQ(RefusalOf([&] { OpenRecords(Write("a.csv", "x,y\n1,2\n\"1\n2\"\n")); }),
            "a.csv:3: has 1 fields; the first line names 2");
  EXPECT_EQ(RefusalOf([&] { OpenRecords(Write("b.csv", "x,y\n1,\"2\n")); }), "b.csv:2: a quoted field is not closed");
  EXPECT_EQ(
      RefusalOf([&] { OpenRecords(Write("a.xml", "<a/>")); }),
      "a.xml: files ending in '.xml' are unsupported; wanted .jsonl, .ndjson, .json, .jsonl.gz, .json.gz, .txt.gz, "
      ".jsonl.zst, .json.zst, .txt.zst, .csv, .tsv, .txt, .parquet, .arrow or a Megatron .bin with its .idx");
  // Not columns, whether or not this build reads them.
  EXPECT_EQ(RefusalOf([&] { OpenRecords(Write("a.parquet", "PAR1")); }).substr(0, 11), "a.parquet: ");
  EXPECT_EQ(RefusalOf([&] { OpenRecords(Write("a.arrow", "")); }).substr(0, 9), "a.arrow: ");
}

}  // namespace
}  // namespace trireme
