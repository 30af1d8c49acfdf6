// Prefetched rows equal the underlying rows, once each, and errors of the thread propagate.
#include "data/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>

namespace trireme {
namespace {

class CountedRows : public RowSource {
 public:
  int64_t size() const override { return 100; }
  int64_t Length(int64_t row) const override { return row; }
  int64_t Trained(int64_t row) const override { return row - 1; }
  Row Read(int64_t row) const override {
    ++reads;
    if (row == 99) throw std::runtime_error("no such row");
    return {.input_ids = {row}, .labels = {row}};
  }
  mutable std::atomic<int> reads = 0;
};

TEST(Prefetcher, ReturnsWhatThePreviousStartRequested) {
  const auto rows = std::make_shared<CountedRows>();
  Prefetcher ahead(rows);
  ahead.Start({4, 2});
  ahead.Start({7});
  EXPECT_EQ(ahead.Read(2).input_ids, std::vector<int64_t>{2});
  EXPECT_EQ(ahead.Read(4).input_ids, std::vector<int64_t>{4});
  ahead.Start({});
  EXPECT_EQ(rows->reads, 3);  // none was read twice
  EXPECT_EQ(ahead.Read(7).input_ids, std::vector<int64_t>{7});
  EXPECT_EQ(rows->reads, 3);
  EXPECT_EQ(ahead.Read(50).input_ids, std::vector<int64_t>{50});  // not prefetched
  EXPECT_EQ(ahead.Length(9), 9);
  EXPECT_EQ(ahead.Trained(9), 8);
}

// Says when its row is read, which is work: an image to decode.
class AnnouncedRow : public CountedRows {
 public:
  bool ReadingIsWork() const override { return true; }
  Row Read(int64_t row) const override {
    Row read = CountedRows::Read(row);
    if (row == 7) was_read.set_value();
    return read;
  }
  mutable std::promise<void> was_read;
};

// While a step runs, the rows of the next one are read, although nobody has asked for them: the test would hang
// otherwise.
TEST(Prefetcher, ReadsTheNextStepWhileThisOneRuns) {
  const auto rows = std::make_shared<AnnouncedRow>();
  Prefetcher ahead(rows);
  ahead.Start({4});
  ahead.Start({7});  // the step of row 4 begins
  rows->was_read.get_future().wait();
  EXPECT_EQ(rows->reads, 2);
  ahead.Start({});  // the step of row 7 begins
  EXPECT_EQ(ahead.Read(7).input_ids, std::vector<int64_t>{7});
  EXPECT_EQ(rows->reads, 2);
}

TEST(Prefetcher, AnErrorOfTheThreadPropagates) {
  Prefetcher ahead(std::make_shared<CountedRows>());
  ahead.Start({99});
  EXPECT_THROW(ahead.Start({}), std::runtime_error);
}

}  // namespace
}  // namespace trireme
