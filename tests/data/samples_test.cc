// Every format that a record may have, and the errors for those without a known format.
#include "data/samples.h"

#include "core/base/error.h"
#include "data/record_fields.h"
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

TEST_F(Samples, ColumnsWithinColumns) {
  const std::map<std::string, std::string> columns = {{"extra.question", "query"}, {"extra.more.answer", "response"}};
  EXPECT_EQ(Plain(MessagesOf(R"({"extra": {"question": "q", "more": {"answer": "a"}}})", {.columns = columns})),
            "u:q a:a ");
  EXPECT_EQ(
      Plain(MessagesOf(R"({"extra": "{\"question\": \"q\", \"more\": {\"answer\": \"a\"}}"})", {.columns = columns})),
      "u:q a:a ")
      << "as CSV has it";
  EXPECT_EQ(Plain(MessagesOf(R"({"extra.question": "name", "extra": {"question": "q"}, "response": "a"})",
                             {.columns = {{"extra.question", "query"}}})),
            "u:name a:a ")
      << "a column of that very name comes first";
  Json record = ParseJson(R"({"reward_model": {"style": "rule", "ground_truth": "4"}, "text": "x"})", "a test");
  RenameColumns(record, {{"reward_model.ground_truth", "solution"}, {"reward_model.none", "query"}, {"text.x", "y"}});
  EXPECT_EQ(record.dump(), R"({"reward_model":{"style":"rule","ground_truth":"4"},"text":"x","solution":"4"})")
      << "the object stays whole";
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

TEST_F(Samples, RefusesToolsThatTemplatesWouldSkip) {
  const auto tools = [&](const std::string& value) {
    return Refused(R"({"query": "q", "response": "a", "tools": )" + value + "}");
  };
  for (const char* value : {"0.5", "true", R"({"": ""})", R"("{}")", R"({"name": "f"})"}) {
    EXPECT_NE(tools(value).find("; wanted a list of functions, each with its name"), std::string::npos) << tools(value);
  }
  for (const char* value :
       {R"("[1]")", "[1]", "[{}]", R"([{"name": 5}])", R"([{"function": {}}])", R"([{"name": ""}])"}) {
    EXPECT_NE(tools(value).find("'tools' has "), std::string::npos) << tools(value);
  }
  for (const char* value : {"null", "[]", R"("")", R"([{"name": "f"}])", R"("[{\"function\": {\"name\": \"f\"}}]")"}) {
    EXPECT_EQ(tools(value), "accepted") << value;
  }
  const auto calls = [&](const std::string& value, const std::string& role = "assistant") {
    return Refused(R"({"messages": [{"role": "user", "content": "q"}, {"role": ")" + role +
                   R"(", "content": "a", "tool_calls": )" + value + "}]}");
  };
  EXPECT_EQ(calls("5"), "message 2 has the tool_calls 5; wanted a list of calls, each with a name and arguments");
  EXPECT_EQ(calls("[5]"), "message 2 has the tool call 5; wanted an object with a function's name and arguments");
  EXPECT_NE(calls(R"([{"function": {"arguments": {}}}])"), "accepted");
  EXPECT_EQ(calls(R"([{"function": {"name": "f", "arguments": {}}}])"), "accepted");
  EXPECT_EQ(calls(R"("[{\"name\": \"f\", \"arguments\": {}}]")"), "accepted");
  EXPECT_EQ(calls("[]", "user"), "accepted") << "as tables have it";
  EXPECT_EQ(calls(R"([{"name": "f"}])", "user"),
            "message 2 has the role user and tool_calls; only the assistant calls tools: remove the key");
}

TEST_F(Samples, RefusesColumnsThatOthersActOn) {
  const auto with = [&](const std::string& more) {
    return Refused(R"({"query": "q", "response": "a", )" + more + "}");
  };
  EXPECT_EQ(
      with(R"("objects": {"ref": ["cat"], "bbox": [[1, 2, 3, 4]]})"),
      "has 'objects', boxes and references for <bbox> and <ref-object>, which are not supported and would stay in the "
      "text; remove the key, or drop it with data.columns: [objects=unused]");
  EXPECT_NE(with(R"("objects": "{\"bbox\": [[1, 2, 3, 4]]}")"), "accepted");
  EXPECT_EQ(with(R"("channel": "maths")"),
            "has 'channel', whose loss is to be told apart, which is not supported; remove the key, or drop it with "
            "data.columns: [channel=unused]");
  for (const char* more : {R"("objects": ["a chair"])", R"("objects": {"ref": [], "bbox": []})", R"("channel": null)",
                           R"("channel": 5)", R"("objects": null)"}) {
    EXPECT_EQ(with(more), "accepted") << more;
  }
  EXPECT_EQ(Refused(R"({"query": "q", "response": "a", "channel": "x"})", {.columns = {{"channel", "unused"}}}),
            "accepted");
}

TEST_F(Samples, PromptAndCompletionAsConversations) {
  const Json messages = MessagesOf(
      R"({"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}],
          "completion": [{"role": "assistant", "content": "b"}], "system": "s"})");
  EXPECT_EQ(Plain(messages), "s:s u:q a:a u:r a:b ");
  EXPECT_EQ(messages[2]["loss"], false) << "of the prompt nothing is trained";
  EXPECT_FALSE(messages[4].contains("loss"));
  EXPECT_EQ(Plain(MessagesOf(R"({"prompt": [{"role": "user", "content": "q"}],
                                 "completion": {"role": "assistant", "content": "b"}})")),
            "u:q a:b ");
  EXPECT_NE(Refused(R"({"prompt": [{"role": "user", "content": "q"}], "completion": "b"})"), "accepted");
}

TEST_F(Samples, RefusesInputsOfModelsBesideTokens) {
  const auto with = [&](const std::string& more) { return Refused(R"({"input_ids": [1, 2, 3], )" + more + "}"); };
  for (const char* more :
       {R"("attention_mask": [1, 0, 1])", R"("attention_mask": [1, 1])", R"("position_ids": [0, 0, 1])",
        R"("pixel_values_videos": "a.safetensors")", R"("video_grid_thw": [[1, 2, 2]])", R"("starts": [0, 2])"}) {
    EXPECT_NE(with(more).find("which would be lost"), std::string::npos) << more << ": " << with(more);
  }
  for (const char* more : {R"("attention_mask": [1, 1, 1])", R"("token_type_ids": [0, 0, 0])",
                           R"("position_ids": [0, 1, 2])", R"("source": "web")", R"("position_ids": null)"}) {
    EXPECT_EQ(with(more), "accepted") << more;
  }
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

TEST_F(Samples, RefusesPartsOfNoKind) {
  for (const char* part : {R"({"type": 0, "text": "q"})", R"({"type": null})", "5", R"({"type": "text", "text": 1})"}) {
    const std::string record = Concat(R"({"messages": [{"role": "user", "content": [)", part, "]}]}");
    EXPECT_NE(Refused(record).find("message 1 has a part that is not text: "), std::string::npos) << Refused(record);
    EXPECT_NE(Refused(record, {.images = true}), "accepted") << part;
  }
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
  EXPECT_EQ(refusal("{}\n"), "b.jsonl.gz: is not a gzip file, or is damaged; check it with: gzip -t") << "a short one";
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

// A frame of `mebibytes` of one letter: 4 bytes for 128 KiB of it.
std::string Repeated(char letter, int mebibytes) {
  std::string frame("\x28\xb5\x2f\xfd\x00\x38", 6);
  for (int i = 8 * mebibytes; i > 0; --i) {
    const unsigned header = (1u << 17 << 3) | 2u | (i == 1 ? 1u : 0u);
    for (const int shift : {0, 8, 16}) frame += static_cast<char>(header >> shift);
    frame += letter;
  }
  return frame;
}

TEST_F(Samples, RefusesSmallFilesThatUnpackToFarMore) {
  const auto refusal = [&](const std::string& bytes) {
    return RefusalOf([&] { OpenRecords(Write("c.jsonl.zst", bytes)); });
  };
  EXPECT_EQ(refusal(Repeated(' ', 200)), "accepted");
  const std::string bomb = Repeated('\n', 300);
  EXPECT_EQ(refusal(bomb), Concat("c.jsonl.zst: unpacks to more than 256 times its ", bomb.size(),
                                  " bytes; if that is right, unpack it yourself and name the result"));
  std::string notes("\x50\x2a\x4d\x18\x00\x00\x20\x00", 8);  // 2 MiB that hold no data
  notes.append(1 << 21, '\0');
  EXPECT_EQ(refusal(notes + Repeated('a', 300)),
            "c.jsonl.zst: has a line of more than 256 MiB, at byte 0 of its unpacked text; wanted one record per line");
}

TEST_F(Samples, RefusesTablesThatAreNotUtf8) {
  const auto refusal = [&](const std::string& text) { return RefusalOf([&] { OpenRecords(Write("d.csv", text)); }); };
  EXPECT_EQ(refusal("prompt,response\na,caf\xe9\n"),
            "d.csv:2: field 2 is not UTF-8: its byte 4 is 233; save the file as UTF-8");
  EXPECT_EQ(refusal("pr\xfc"
                    "fung\na\n"),
            "d.csv:1: field 1 is not UTF-8: its byte 3 is 252; save the file as UTF-8");
  for (const char* other : {"\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80"}) {
    EXPECT_NE(refusal(std::string("a\n") + other + "\n"), "accepted") << "overlong, surrogate, too large, cut, alone";
  }
  EXPECT_EQ(refusal("a\n\xe2\x82\xac \xf0\x9f\x98\x80 \xc3\xa9 \xef\xbf\xbd\n"), "accepted");
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
