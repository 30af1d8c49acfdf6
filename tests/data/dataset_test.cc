// From files to rows: tokenised once, found again in the cache, and recomputed if anything that affects the
// result changed.
#include "data/dataset.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "core/base/file.h"
#include "core/config/load.h"
#include "data/prepare.h"
#include "tests/data/scratch.h"

namespace trireme {
namespace {

constexpr const char* kTwo =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": "
    "\"aa\"}]}\n"
    "{\"query\": \"r\", \"response\": \"bbb\"}\n";

class Dataset : public ScratchTest {
 protected:
  Config Run(const std::string& data, const std::string& more = "") const {
    return ParseConfig(Concat("model: {path: ", TRIREME_EXAMPLE, "}\ndata: {cache: ", (folder_ / "cache").string(),
                              ", packing: false, ", data, "}\n", more),
                       "test");
  }
  std::string Named(const std::string& name) const { return Concat("train: ['", (folder_ / name).string(), "']"); }
  static DataSets Open(const Config& config) { return OpenDataSets(config, {.vocabulary = 260}); }
  std::string Refused(const std::string& data, const std::string& more = "") const {
    return RefusalOf([&] { Open(Run(data, more)); });
  }
  int64_t Stores() const {
    int64_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache"))
      count += entry.path().extension() == ".rows";
    return count;
  }
  // The trained part of a row, as text.
  static std::string Learnt(const Row& row) {
    static const Tokenizer bytes(TRIREME_EXAMPLE);
    std::vector<int32_t> ids;
    for (size_t i = 0; i < row.labels.size(); ++i) {
      if (row.labels[i] != kNotTrained) ids.push_back(static_cast<int32_t>(row.labels[i]));
    }
    return bytes.Decode(ids);
  }
};

TEST_F(Dataset, TrainsOnTheAnswersOfConversations) {
  Write("a.jsonl", kTwo);
  const DataSets data = Open(Run(Named("a.jsonl")));
  ASSERT_EQ(data.train->size(), 2);
  EXPECT_EQ(Learnt(data.train->Read(0)), "aa<|im_end|>\n");
  EXPECT_EQ(Learnt(data.train->Read(1)), "bbb<|im_end|>\n");
  EXPECT_EQ(data.train->Trained(1), 5);
  EXPECT_EQ(data.valid, nullptr);
}

TEST_F(Dataset, PartsOfAnswersHaveWeightsAndPlaceholdersTexts) {
  Write("a.jsonl", "{\"query\": \"q {{NAME}}\", \"response\": \"I am {{NAME}}. O: b\"}\n");
  const std::string data = Named("a.jsonl") + ", replace: ['{{NAME}}=Tri'], ";
  const Row plain = Open(Run(data)).train->Read(0);
  EXPECT_EQ(Learnt(plain), "I am Tri. O: b<|im_end|>\n");
  EXPECT_TRUE(plain.weights.empty());
  const Row weighed = Open(Run(data + "loss_weights: ['O:=2 0', 'am=3 1']")).train->Read(0);
  EXPECT_EQ(Learnt(weighed), "I am Tri. O:<|im_end|>\n");
  EXPECT_EQ(std::ranges::count(weighed.weights, 3), 2);
  EXPECT_EQ(std::ranges::count(weighed.weights, 2), 2);
  EXPECT_EQ(Stores(), 2);
  Write("b.jsonl", "{\"query\": \"q\", \"response\": \"<think>\\n</think>\\nyes\"}\n");
  EXPECT_EQ(Learnt(Open(Run(Named("b.jsonl") + ", skip_empty_think: true")).train->Read(0)), "yes<|im_end|>\n");
  EXPECT_NE(Refused(Named("a.jsonl") + ", loss_weights: ['O:']").find("data.loss_weights: 'O:'"), std::string::npos);
  EXPECT_NE(Refused(Named("a.jsonl") + ", replace: [NAME]").find("data.replace has 'NAME'"), std::string::npos);
}

TEST_F(Dataset, PretrainsOnTextWithItsEnd) {
  Write("a.txt", "one\ntwo\n");
  const DataSets data = Open(Run(Named("a.txt"), "stage: pt"));
  ASSERT_EQ(data.train->size(), 2);
  EXPECT_EQ(data.train->Read(0).input_ids, (std::vector<int64_t>{'o', 'n', 'e', 258}));
  EXPECT_EQ(Learnt(data.train->Read(1)), "wo<|im_end|>");
}

TEST_F(Dataset, TokenisesOnceAndAgainIfAnythingChanged) {
  Write("a.jsonl", kTwo);
  Open(Run(Named("a.jsonl")));
  const auto store = [&] {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache")) {
      if (entry.path().extension() == ".rows") return entry.path();
    }
    return std::filesystem::path();
  };
  const auto written = std::filesystem::last_write_time(store());
  Open(Run(Named("a.jsonl")));
  Write("same.jsonl", kTwo);  // another name, the same contents
  Open(Run(Named("same.jsonl")));
  EXPECT_EQ(Stores(), 1);
  EXPECT_EQ(std::filesystem::last_write_time(store()), written);
  Open(Run(Named("a.jsonl") + ", system: be brief"));
  EXPECT_EQ(Stores(), 2);
  Open(Run(Named("a.jsonl") + ", loss: all"));
  EXPECT_EQ(Stores(), 3);
  Write("a.jsonl", std::string(kTwo) + kTwo);
  EXPECT_EQ(Open(Run(Named("a.jsonl"))).train->size(), 4);
  EXPECT_EQ(Stores(), 4);
}

TEST_F(Dataset, OtherProcessesWaitForTheOneThatTokenises) {
  Write("a.jsonl", kTwo);
  const Config config = Run(Named("a.jsonl"));
  int64_t rows = 0;
  {
    const std::jthread waits([&] { rows = OpenDataSets(config, {.vocabulary = 260, .works = false}).train->size(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(rows, 0);
    Open(config);
  }
  EXPECT_EQ(rows, 2);
}

TEST_F(Dataset, AcceptsDirectoriesCountsAndWeights) {
  std::filesystem::create_directory(folder_ / "many");
  Write("many/b.jsonl", kTwo);
  Write("many/a.json", "[{\"query\": \"x\", \"response\": \"c\"}]");
  Write("many/notes.md", "not data");
  Write("a#1.jsonl", kTwo);
  const DataSets data = Open(Run(Named("many")));
  ASSERT_EQ(data.train->size(), 3);
  EXPECT_EQ(Learnt(data.train->Read(0)), "c<|im_end|>\n");
  EXPECT_EQ(Open(Run(Named("many#7"))).train->size(), 7);
  EXPECT_EQ(Open(Run(Named("a#1.jsonl"))).train->size(), 2);  // a file with exactly that name
  EXPECT_EQ(Open(Run(Named("a#1.jsonl#1"))).train->size(), 1);
  const std::string many = (folder_ / "many").string(), one = (folder_ / "a#1.jsonl").string();
  EXPECT_EQ(Open(Run(Concat("train: ['", many, "@0.75', '", one, "@0.25']"))).train->size(), 5);
  EXPECT_EQ(Refused(Concat("train: ['", many, "@0.75', '", one, "']")),
            "data.train: 1 of 2 entries have a weight; give one to each or to none");
  EXPECT_EQ(Refused(Named("many#0")), "data.train: many#0 ends in '0'; wanted a number of samples, such as #500");
  EXPECT_EQ(Refused(Named("many@x")), "data.train: many@x ends in 'x'; wanted a weight, such as @0.3");
  EXPECT_EQ(Refused(Named("none")), "data.train: none does not exist; check the path");
}

TEST_F(Dataset, PacksAndSplitsOffValidation) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += kTwo;
  Write("a.jsonl", text);
  const DataSets data = Open(Run(Named("a.jsonl") + ", valid_ratio: 0.25, max_length: 200"));
  EXPECT_EQ(data.train->size() + data.valid->size(), 40);
  EXPECT_EQ(data.valid->size(), 10);
  Config config = Run(Named("a.jsonl") + ", max_length: 200");
  config.mutable_data()->set_packing(true);
  const DataSets packed = Open(config);
  EXPECT_LT(packed.train->size(), 14);
  EXPECT_GT(packed.train->Read(0).starts.size(), 2u);
}

TEST_F(Dataset, EvaluatesOnAsManyBatchesAsWanted) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += kTwo;
  Write("a.jsonl", text);
  const auto valid = [&](const std::string& more) {
    return Open(Run(Named("a.jsonl") + ", valid_ratio: 0.25, max_length: 200", more)).valid;
  };
  const Rows all = valid("run: {global_batch: 4}"), first = valid("run: {global_batch: 4}\neval: {batches: 2}");
  ASSERT_EQ(all->size(), 10);
  ASSERT_EQ(first->size(), 8);
  for (int64_t row = 0; row < 8; ++row) EXPECT_EQ(first->Read(row).input_ids, all->Read(row).input_ids);
  EXPECT_EQ(valid("run: {global_batch: 4}\neval: {batches: 3}")->size(), 10);
}

TEST_F(Dataset, RefusesBadInputWithItsLocation) {
  Write("broken.jsonl", std::string(kTwo) + "{\"query\": \n");
  EXPECT_EQ(Refused(Named("broken.jsonl")),
            "broken.jsonl:3: is not a JSON object: {\"query\": ; repair the line, or set data.on_error to skip");
  Write("mute.jsonl", std::string(kTwo) + "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}\n");
  EXPECT_EQ(Refused(Named("mute.jsonl")), "mute.jsonl:3: has no assistant turn, so there is nothing to train on");
  Write("text.jsonl", "{\"text\": \"t\"}\n");
  EXPECT_EQ(Refused(Named("text.jsonl")),
            "text.jsonl:1: is plain text, which has no assistant turn; set stage: pt to train on all of it");
  Write("empty.jsonl", "\n\n");
  EXPECT_EQ(Refused(Named("empty.jsonl")), "empty.jsonl: has no rows");
  Write("a.jsonl", kTwo);
  EXPECT_EQ(Refused(Named("a.jsonl") + ", max_length: 10"),
            "a.jsonl: of its 2 samples none can be trained on; data.max_length = 10, the shortest has 24 tokens");
  Write("masked.jsonl", "{\"input_ids\": [1, 2, 3], \"labels\": [-100, -100, -100]}\n");
  EXPECT_EQ(
      Refused(Named("masked.jsonl") + ", max_length: 64"),
      "masked.jsonl: of its 1 samples none can be trained on; those of at most data.max_length = 64 tokens have none "
      "that is trained: their labels are all -100, or their loss is false");
  EXPECT_EQ(Refused(Named("a.jsonl") + ", template: " + (folder_ / "no.jinja").string()).substr(0, 42),
            "data.template: no.jinja does not exist; na");
  Write("bad.jinja", "{{ raise_exception('no roles here') }}");
  EXPECT_EQ(Refused(Named("a.jsonl") + ", template: " + (folder_ / "bad.jinja").string()),
            "a.jsonl:1: bad.jinja: line 1: no roles here");
  EXPECT_EQ(Refused(Named("a.jsonl") + ", columns: [question]"),
            "data.columns has 'question'; wanted theirs=ours, such as question=query");
  EXPECT_EQ(Refused(Named("a.jsonl") + ", valid: [b], valid_ratio: 0.5"),
            "data.valid names 1 files, data.valid_ratio is 0.5 and data.split has 0 parts; set only one of the three");
  EXPECT_EQ(Refused("train: []"), "data.train is empty; name at least one file");
}

TEST_F(Dataset, RefusesWhatATemplateWouldDropWithItsLocation) {
  Write("users.jinja",
        "{% for m in messages %}{% if m.role == 'user' %}U:{{ m.content }}{% elif m.role == 'assistant' %}"
        "A:{{ m.content }}{% endif %}{% endfor %}");
  const std::string with = ", template: " + (folder_ / "users.jinja").string();
  Write("a.jsonl", std::string(kTwo) +
                       "{\"messages\": [{\"role\": \"developer\", \"content\": \"be brief\"}, {\"role\": \"user\", "
                       "\"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\"}]}\n");
  EXPECT_EQ(Refused(Named("a.jsonl") + with),
            "a.jsonl:3: message 1 of 3, of the role developer, is not in the text that the chat template renders: "
            "\"be brief\"; use the role system, or a template that supports developer");
  EXPECT_EQ(Refused(Named("a.jsonl")), "accepted") << "this template writes every role";
  Write("t.jsonl", "{\"query\": \"q\", \"response\": \"a\", \"tools\": [{\"function\": {\"name\": \"find\"}}]}\n");
  EXPECT_EQ(Refused(Named("t.jsonl") + with).substr(0, 71),
            "t.jsonl:1: has the tool find, which the chat template does not render; ");
}

TEST_F(Dataset, AcceptsGlobPatterns) {
  Write("a1.jsonl", kTwo);
  Write("a2.jsonl", kTwo);
  Write("b.jsonl", kTwo);
  Write("a.md", "no data");
  EXPECT_EQ(Open(Run(Named("a?.jsonl"))).train->size(), 4);
  EXPECT_EQ(Open(Run(Named("*"))).train->size(), 6);
  EXPECT_EQ(Open(Run(Named("[ab]*.jsonl#3"))).train->size(), 3);
  EXPECT_EQ(Refused(Named("c*.jsonl")), "data.train: c*.jsonl matches no file; check the pattern");
  EXPECT_EQ(Refused(Named("**/x.jsonl")),
            "data.train: **/x.jsonl: ** is not supported; name the directory to use all files below it");
  EXPECT_EQ(Refused(Named("*.md")),
            "data.train: *.md matches no data; wanted files ending in " + RecordEndings() + " or .idx");
}

TEST_F(Dataset, NamesEveryBrokenRecord) {
  std::string text = kTwo;
  for (int i = 0; i < 4; ++i) text += "{broken\n";
  Write("a.jsonl", text);
  const Config config = Run(Named("a.jsonl"));
  const Preparer preparer(config.data(), FactsOf(config), config.model(), true);
  const std::vector<std::string> all = preparer.FindBroken(folder_ / "a.jsonl", 9);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[3].substr(0, (folder_ / "a.jsonl:6: is no").string().size()), (folder_ / "a.jsonl:6: is no").string());
  const std::vector<std::string> some = preparer.FindBroken(folder_ / "a.jsonl", 1);
  ASSERT_EQ(some.size(), 2u);
  EXPECT_EQ(some[1], (folder_ / "a.jsonl: 3 more of its 6 records are broken").string());
}

TEST_F(Dataset, RefusesAMissingTokenizerEvenIfRecordsMayBeSkipped) {
  Write("a.jsonl", kTwo);
  Config config = Run(Named("a.jsonl") + ", on_error: skip");
  config.mutable_model()->set_path(folder_.string());
  EXPECT_EQ(RefusalOf([&] { Open(config); }).find("has no tokenizer.json; wanted the directory of a model"),
            folder_.string().size() + 2);
}

TEST_F(Dataset, RefusesTokensBeyondTheVocabulary) {
  Write("a.jsonl", kTwo);
  EXPECT_EQ(RefusalOf([&] { OpenDataSets(Run(Named("a.jsonl")), {.vocabulary = 200}); }),
            "a.jsonl: has the token 258; the model's vocabulary of 200 is smaller. Does the tokenizer "
            "belong to the model?");
}

TEST_F(Dataset, SkipsBrokenRecordsAndContinues) {
  Write("a.jsonl", std::string("{broken\n") + kTwo + "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}\n");
  const Config config = Run(Named("a.jsonl") + ", on_error: skip");
  EXPECT_EQ(Open(config).train->size(), 2);
  const Preparer preparer(config.data(), FactsOf(config), config.model(), true);
  EXPECT_EQ(preparer.Prepare(folder_ / "a.jsonl")->skipped(), 2);
}

// Whatever byte of the cache is damaged, the rows equal the data, or nobody trains on them.
TEST_F(Dataset, ADamagedCacheIsRebuilt) {
  Write("a.jsonl", kTwo);
  const Config config = Run(Named("a.jsonl"));
  const auto rows = [&] {
    const DataSets data = Open(config);
    std::vector<std::vector<int64_t>> all;
    for (int64_t i = 0; i < data.train->size(); ++i) {
      const Row row = data.train->Read(i);
      all.push_back(row.input_ids);
      all.push_back(row.labels);
    }
    return all;
  };
  const auto wanted = rows();
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache")) {
    if (entry.path().extension() != ".lock") files.push_back(entry.path());
  }
  ASSERT_EQ(files.size(), 2u);  // the rows, and the link to them
  testing::internal::CaptureStderr();
  for (const std::filesystem::path& file : files) {
    const std::string good = ReadTextFile(file.string());
    for (size_t at = 0; at < good.size(); at += 3) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1 << at % 8);
      std::ofstream(file, std::ios::binary) << bad;
      ASSERT_EQ(rows(), wanted) << file << " at byte " << at;
    }
    for (const size_t bytes : {size_t{0}, good.size() / 2, good.size() - 1}) {
      std::ofstream(file, std::ios::binary) << good.substr(0, bytes);
      ASSERT_EQ(rows(), wanted) << file << " cut at " << bytes;
    }
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(".rows: row 0 does not match its digest; the cache is damaged and is rebuilt"),
            std::string::npos);
}

TEST_F(Dataset, WeightsAreCachedWithTheirRows) {
  Write("a.jsonl", R"({"input_ids": [1, 2, 3], "weights": [1, 0.5, 2]})"
                   "\n"
                   R"({"input_ids": [4, 5]})"
                   "\n"
                   R"({"input_ids": [6, 7], "weights": [1, 3]})"
                   "\n");
  const Config config = Run(Named("a.jsonl"));
  const Preparer preparer(config.data(), FactsOf(config), config.model(), true);
  for (int from_cache = 0; from_cache < 2; ++from_cache) {
    const std::shared_ptr<const RowStore> store = preparer.Prepare(folder_ / "a.jsonl");
    ASSERT_EQ(store->size(), 3);
    EXPECT_EQ(store->Read(0).weights, (std::vector<float>{1, 0.5F, 2}));
    EXPECT_TRUE(store->Read(1).weights.empty());
    EXPECT_EQ(store->Read(1).input_ids, (std::vector<int64_t>{4, 5}));
    EXPECT_EQ(store->Read(2).weights, (std::vector<float>{1, 3}));
    EXPECT_EQ(store->Trained(2), 1);
  }
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache")) {
    if (entry.path().extension() == ".rows") file = entry.path();
  }
  std::fstream damage(file, std::ios::binary | std::ios::in | std::ios::out);
  damage.seekp(4 * (2 * 3 + 1));  // the second weight of the first row
  damage.put(1);
  damage.close();
  EXPECT_EQ(RowStore(file).FindDamage(), 0);
}

// A disk may also corrupt what was intact when the run began.
TEST_F(Dataset, ARowDamagedLaterEndsTheRunAndIsRemoved) {
  Write("a.jsonl", kTwo);
  const Config config = Run(Named("a.jsonl"));
  const Preparer preparer(config.data(), FactsOf(config), config.model(), true);
  const std::shared_ptr<const RowStore> store = preparer.Prepare(folder_ / "a.jsonl");
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache")) {
    if (entry.path().extension() == ".rows") file = entry.path();
  }
  std::fstream damage(file, std::ios::binary | std::ios::in | std::ios::out);
  damage.seekp(8 * store->Length(0) + 4);
  damage.put(1);
  damage.close();
  EXPECT_EQ(store->Read(0).input_ids.size(), static_cast<size_t>(store->Length(0)));
  try {
    store->Read(1);
    ADD_FAILURE() << "the damaged row was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kRuntime);
    EXPECT_NE(std::string(error.what()).find(".rows: row 1 does not match its digest"), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(preparer.Prepare(folder_ / "a.jsonl")->Read(1).input_ids.size(), static_cast<size_t>(store->Length(1)));
}

TEST_F(Dataset, RefusesWhatIsNotARegularFileByName) {
  ASSERT_EQ(mkfifo((folder_ / "pipe.jsonl").c_str(), 0600), 0);
  EXPECT_EQ(Refused(Named("pipe.jsonl")), "pipe.jsonl: is a FIFO; wanted a regular file");
  std::filesystem::create_symlink("/dev/zero", folder_ / "zero.jsonl");
  EXPECT_EQ(Refused(Named("zero.jsonl")), "zero.jsonl: is a device; wanted a regular file");
  std::filesystem::create_symlink("loop.jinja", folder_ / "loop.jinja");
  Write("a.jsonl", kTwo);
  EXPECT_EQ(Refused(Named("a.jsonl") + ", template: " + (folder_ / "loop.jinja").string()),
            "loop.jinja: cannot be read: Too many levels of symbolic links");
  EXPECT_EQ(Refused(Named("a.jsonl") + ", template: " + std::string(5000, 'x')),
            std::string(5000, 'x') + ": cannot be read: File name too long");
}

TEST_F(Dataset, RefusesDeepAndImpossibleJson) {
  Write("deep.jsonl", "{\"messages\": " + std::string(100000, '[') + std::string(100000, ']') + "}\n");
  EXPECT_EQ(Refused(Named("deep.jsonl")), "deep.jsonl:1: is nested too deeply; at most 100 levels are read");
  const std::string text = std::string(100000, '[') + std::string(100000, ']');
  Write("text.jsonl", "{\"messages\": \"" + text + "\"}\n");
  EXPECT_EQ(Refused(Named("text.jsonl")).find("text.jsonl:1: 'messages' is a string that is not JSON: [[["), 0u);
  Write("large.jsonl", "{\"query\": 1e999, \"response\": \"a\"}\n");
  EXPECT_EQ(Refused(Named("large.jsonl")).find("large.jsonl:1: is not a JSON object: "), 0u);
}

}  // namespace
}  // namespace trireme
