// Streamed data: rows by index are a function of the files and the options, whoever asks for them, and from wherever a
// run resumes; nothing of it stays in the cache.
#include "data/stream.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <thread>

#include "core/base/file.h"
#include "core/config/load.h"
#include "tests/data/scratch.h"

namespace trireme {
namespace {

class Stream : public ScratchTest {
 protected:
  Stream() {
    std::filesystem::create_directories(folder_ / "run");
    for (int file = 0; file < 3; ++file) {
      std::string lines;
      for (int record = 0; record < kRecords[file]; ++record)
        lines += Concat("{\"input_ids\": [7, ", First(file) + record, "]}\n");
      Write(Concat("part", file, ".jsonl"), lines);
    }
  }

  Config Run(const std::string& data = "", const std::string& run = "steps: 20, global_batch: 4",
             const char* output = "run") const {
    return ParseConfig(
        Concat("model: {path: nowhere}\nstage: pt\nrun: {output: '", (folder_ / output).string(), "', ", run,
               "}\ndata: {streaming: true, shuffle_buffer: 5, ",
               data.find("packing") == std::string::npos ? "packing: false, " : "", "cache: '",
               (folder_ / "cache").string(), "', train: ['", folder_.string(), "/part*.jsonl']", data, "}"),
        "test");
  }
  // The number that a record's row has as its only trained token.
  static int64_t Number(const RowSource& rows, int64_t row) { return rows.Read(row).input_ids.back(); }
  static std::vector<int64_t> Numbers(const Config& config, int64_t begin, int64_t end,
                                      const DataPlace& place = {.vocabulary = 1000}) {
    const Rows rows = OpenStream(config, place);
    std::vector<int64_t> numbers;
    for (int64_t row = begin; row < end; ++row) numbers.push_back(Number(*rows, row));
    return numbers;
  }
  static int First(int file) { return 100 * (file + 1); }
  size_t Cached() const {
    size_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_ / "cache")) ++files;
    return files;
  }

  static constexpr int kRecords[] = {7, 1, 11};
  static constexpr int kAll = 19;
};

TEST_F(Stream, ReadsFilesInOrderAgainAndAgain) {
  const std::vector<int64_t> numbers = Numbers(Run(", shuffle: false"), 0, 2 * kAll);
  std::vector<int64_t> wanted;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int file = 0; file < 3; ++file) {
      for (int record = 0; record < kRecords[file]; ++record) wanted.push_back(First(file) + record);
    }
  }
  EXPECT_EQ(numbers, wanted);
  EXPECT_EQ(Cached(), 0U);
}

TEST_F(Stream, ShufflesEachEpochOnce) {
  const std::vector<int64_t> numbers = Numbers(Run(), 0, 3 * kAll);
  std::vector<std::vector<int64_t>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    epochs.emplace_back(numbers.begin() + epoch * kAll, numbers.begin() + (epoch + 1) * kAll);
    EXPECT_EQ(std::set<int64_t>(epochs.back().begin(), epochs.back().end()).size(), size_t{kAll}) << epoch;
    EXPECT_FALSE(std::is_sorted(epochs.back().begin(), epochs.back().end()));
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  EXPECT_EQ(numbers, Numbers(Run(), 0, 3 * kAll));
  EXPECT_NE(numbers, Numbers(Run("", "steps: 20, global_batch: 4, seed: 43", "other"), 0, 3 * kAll));
}

// From every step on: with the index, and without it, where everything before is tokenized again.
TEST_F(Stream, ResumesExactly) {
  const std::vector<int64_t> all = Numbers(Run(), 0, 80);
  for (const bool indexed : {true, false}) {
    for (int64_t step = 0; step < 20; step += indexed ? 1 : 7) {
      if (!indexed) std::filesystem::remove(folder_ / "run" / "stream.jsonl");
      EXPECT_EQ(Numbers(Run(), 4 * step, 80), std::vector<int64_t>(all.begin() + 4 * step, all.end()))
          << step << indexed;
    }
  }
}

// A run that was killed leaves half a line; the lines after it are read, too.
TEST_F(Stream, AddsToATornIndex) {
  const std::vector<int64_t> all = Numbers(Run(), 0, 80);
  const std::filesystem::path index = folder_ / "run" / "stream.jsonl";
  const std::string whole = ReadTextFile(index.string());
  const size_t second = whole.find('\n', whole.find('\n') + 1) + 1;
  std::ofstream(index, std::ios::trunc) << whole.substr(0, second + 9);
  EXPECT_EQ(Numbers(Run(), 0, 80), all);
  EXPECT_EQ(ReadTextFile(index.string()), Concat(whole.substr(0, second + 9), "\n", whole.substr(second)));
  EXPECT_EQ(Numbers(Run(), 60, 80), std::vector<int64_t>(all.begin() + 60, all.end()));
  EXPECT_EQ(ReadTextFile(index.string()), Concat(whole.substr(0, second + 9), "\n", whole.substr(second)));
}

// A rank need not read its step's first row first.
TEST_F(Stream, ResumesInTheMiddleOfAStep) {
  const std::vector<int64_t> all = Numbers(Run(), 0, 80);
  const Config config = Run();
  const Rows rows = OpenStream(config, {.vocabulary = 1000});
  for (const int64_t row : {43, 41, 40, 44, 42}) EXPECT_EQ(Number(*rows, row), all[row]) << row;
}

TEST_F(Stream, OneProcessTokenizesForAll) {
  const std::vector<int64_t> all = Numbers(Run(), 0, 80);
  const Config config = Run();  // outlives both
  const Rows working = OpenStream(config, {.vocabulary = 1000});
  const Rows waiting = OpenStream(config, {.vocabulary = 1000, .works = false, .reports = false});
  std::vector<int64_t> found;
  std::thread other([&] {
    for (int64_t row = 0; row < 8; ++row) found.push_back(Number(*waiting, row));
  });
  for (int64_t row = 0; row < 8; ++row) EXPECT_EQ(Number(*working, row), all[row]);
  other.join();
  EXPECT_EQ(found, std::vector<int64_t>(all.begin(), all.begin() + 8));
}

TEST_F(Stream, RemovesWhatNoStepNeeds) {
  const Config config = Run();
  const Rows rows = OpenStream(config, {.vocabulary = 1000});
  for (int64_t row = 0; row < 80; ++row) Number(*rows, row);
  // The chunks of three steps, with their notes, and those of the one in the works.
  EXPECT_LE(Cached(), 2U * 6);
  EXPECT_THROW(Number(*rows, 0), Error);
}

TEST_F(Stream, PacksWithinAChunk) {
  const Config config = Run(", packing: true, max_length: 6", "steps: 6, global_batch: 1");
  const Rows rows = OpenStream(config, {.vocabulary = 1000});
  std::set<int64_t> seen;
  for (int64_t row = 0; row < 6; ++row) {
    const Row packed = rows->Read(row);
    EXPECT_LE(packed.input_ids.size(), 6U);
    for (const int64_t id : packed.input_ids) seen.insert(id);
  }
  EXPECT_GE(seen.size(), 10U);
}

TEST_F(Stream, RefusesOtherDataOnResume) {
  Numbers(Run(), 0, 8);
  EXPECT_NE(RefusalOf([&] { Numbers(Run(", max_length: 99"), 8, 12); }).find("has changed since this run began"),
            std::string::npos);
  std::ofstream(folder_ / "part1.jsonl", std::ios::app) << "{\"input_ids\": [7, 8]}\n";
  EXPECT_NE(RefusalOf([&] { Numbers(Run(), 8, 12); }).find("has changed since this run began"), std::string::npos);
}

TEST_F(Stream, RefusesWhatDoesNotGoWithIt) {
  const auto refusal = [&](const std::string& data, const std::string& run = "steps: 20") {
    return RefusalOf([&] { OpenStream(Run(data, run), {.vocabulary = 1000}); });
  };
  EXPECT_NE(refusal("", "epochs: 1").find("set run.steps"), std::string::npos);
  EXPECT_NE(refusal(", valid_ratio: 0.1").find("set data.valid"), std::string::npos);
  Config epochs = Run();
  epochs.mutable_save()->set_every_epoch(true);
  EXPECT_NE(RefusalOf([&] { OpenStream(epochs, {.vocabulary = 1000}); }).find("set save.every"), std::string::npos);
  Config config = Run();
  config.set_stage(STAGE_DPO);
  EXPECT_NE(RefusalOf([&] {
              OpenStream(config, {});
            }).find("data.streaming = true is for stages pt and sft, not dpo; leave it out"),
            std::string::npos);
  config = Run();
  config.mutable_data()->set_train(0, (folder_ / "part0.jsonl").string() + "#3");
  EXPECT_NE(RefusalOf([&] { OpenStream(config, {}); }).find("streamed data is taken as it is"), std::string::npos);
}

TEST_F(Stream, RefusesBrokenRecordsAndForeignTokens) {
  EXPECT_NE(
      RefusalOf([&] { Numbers(Run(), 0, 8, {.vocabulary = 100}); }).find("the model's vocabulary of 100 is smaller"),
      std::string::npos);
  Write("part0.jsonl", "{\"input_ids\": []}\n");
  EXPECT_NE(RefusalOf([&] { Numbers(Run(), 0, 19); }).find("part0.jsonl:1: the row is empty"), std::string::npos);
  EXPECT_EQ(Numbers(Run(", on_error: skip, shuffle: false", "steps: 5", "other"), 0, 1)[0], 200);
  for (int file = 0; file < 3; ++file) Write(Concat("part", file, ".jsonl"), "{\"input_ids\": [7]}\n");
  EXPECT_NE(RefusalOf([&] { Numbers(Run("", "steps: 5", "third"), 0, 1); }).find("makes a row to train on"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
