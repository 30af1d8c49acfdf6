// Rows from a file: what is read, and every line that is refused.
#include "data/rows.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace trireme {
namespace {

class Rows : public testing::Test {
 protected:
  Rows() : path_(std::filesystem::temp_directory_path() / ("trireme-rows-" + std::to_string(getpid()))) {}
  ~Rows() override { std::filesystem::remove(path_); }

  void Write(const std::string& text) { std::ofstream(path_) << text; }
  std::string RefusalOf(const std::string& text) {
    Write(text);
    try {
      ReadRows(path_.string(), 10);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return std::string(error.what()).substr(path_.string().size());
    }
    return "accepted";
  }

  std::filesystem::path path_;
};

TEST_F(Rows, ReadsRowsAndCountsWhatIsTrained) {
  Write("{\"input_ids\": [1, 2, 3], \"labels\": [1, -100, 3]}\n\n{\"input_ids\": [4], \"labels\": [4]}\n");
  const std::vector<Row> rows = ReadRows(path_.string(), 10);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].labels, (std::vector<int64_t>{1, -100, 3}));
  EXPECT_EQ(CountTrained(rows), 1) << "the first label of a row predicts nothing";
}

TEST_F(Rows, RefusesWithFileAndLine) {
  const std::string good = "{\"input_ids\": [1], \"labels\": [1]}\n";
  EXPECT_EQ(RefusalOf(good + "[1]\n"), ":2: is not a JSON object: [1]");
  EXPECT_EQ(RefusalOf(good + "{\"labels\": [1]}\n"), ":2: wanted a list 'input_ids'");
  EXPECT_EQ(RefusalOf("{\"input_ids\": [1.5], \"labels\": [1]}"), ":1: input_ids has 1.5; wanted whole numbers");
  EXPECT_EQ(RefusalOf("{\"input_ids\": [], \"labels\": []}"), ":1: the row is empty");
  EXPECT_EQ(RefusalOf("{\"input_ids\": [1, 2], \"labels\": [1]}"), ":1: 2 input_ids and 1 labels; wanted equally many");
  EXPECT_EQ(RefusalOf("{\"input_ids\": [10], \"labels\": [1]}"),
            ":1: input_ids[0] = 10 is outside the vocabulary of 10");
  EXPECT_EQ(RefusalOf("{\"input_ids\": [1], \"labels\": [-1]}"),
            ":1: labels[0] = -1 is neither -100 nor in the vocabulary of 10");
  EXPECT_EQ(RefusalOf("\n"), ": has no rows");
  EXPECT_EQ(
      RefusalOf("{\"input_ids\": [1], \"labels\": [1], \"weigths\": [1]}"),
      ":1: has the key weigths, which would be lost; nearest: weights; remove it, or rename it to _weigths, which is "
      "ignored");
  for (const char* key : {"position_ids", "attention_mask", "pixel_values_videos", "video_grid_thw"}) {
    EXPECT_NE(RefusalOf(Concat("{\"input_ids\": [1], \"labels\": [1], \"", key, "\": [0]}")).find(key),
              std::string::npos);
  }
  EXPECT_EQ(RefusalOf("{\"input_ids\": [1], \"labels\": [1], \"_note\": 1, \"position_ids\": null}"), "accepted");
}

}  // namespace
}  // namespace trireme
