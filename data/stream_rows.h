// StreamRows: rows of data that is tokenized while it is trained on, for data too large to tokenize first. Records are
// taken in the files' order, `buffer` at a time; such a chunk is tokenized, packed and shuffled as if it were all there
// is, and its file is removed when it was used. Row i is a function of the options and the files alone: the same on
// every rank, under every layout, and after a resume, which an index of the chunks makes quick.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "data/prepare.h"
#include "data/record_cursor.h"
#include "data/row_views.h"

namespace trireme {

struct StreamOptions {
  std::vector<DataFile> files;
  int64_t rows = 0;     // that the run will read
  int64_t batch = 1;    // rows of a step: rows of the last three steps stay readable
  int64_t buffer = 1;   // records of a chunk
  bool shuffle = true;  // the files in every epoch, and the rows of a chunk
  uint64_t seed = 0;
  std::string digest = {};            // of all that the rows depend on
  std::filesystem::path chunks = {};  // what the names of this run's chunks begin with, in the cache
  std::filesystem::path index = {};   // where chunks begin: one line each; made by the process that `reports`
  bool works = true;                  // whether this process tokenizes; another one of its host does otherwise
  bool reports = true;
};

// Rows of a chunk's store, as a run takes them; refuses tokens that the model does not have.
using RowsOfStore = std::function<Rows(std::shared_ptr<const RowStore>)>;

class StreamRows : public RowSource {
 public:
  StreamRows(StreamOptions options, std::shared_ptr<const Preparer> preparer, RowsOfStore rows_of);
  ~StreamRows() override;

  int64_t size() const override { return options_.rows; }
  int64_t Length(int64_t row) const override;
  int64_t Trained(int64_t row) const override;
  Row Read(int64_t row) const override;

 private:
  // Where a chunk begins.
  struct Start {
    int64_t chunk = 0, epoch = 0, first_row = 0;
    RecordCursor::Position at = {};
  };
  struct Chunk {
    Start start;
    Rows rows;
    int64_t end() const { return start.first_row + rows->size(); }
  };

  const Chunk& Find(int64_t row) const;
  void JumpTo(int64_t row) const;
  void Advance() const;
  void Forget(int64_t row) const;
  void Remove(int64_t chunk) const;
  void AddToIndex(const Start& start) const;
  Rows Open(const Start& start) const;
  Start Make(const Start& start) const;
  Start StartAfter(const Start& start) const;
  std::vector<DataFile> FilesOfEpoch(int64_t epoch) const;
  std::filesystem::path StoreOf(int64_t chunk) const;
  std::filesystem::path NoteOf(int64_t chunk) const;

  const StreamOptions options_;
  const std::shared_ptr<const Preparer> preparer_;
  const RowsOfStore rows_of_;
  mutable std::mutex mutex_;
  mutable std::deque<Chunk> chunks_;              // consecutive
  mutable Start next_;                            // of the chunk after them
  mutable int64_t indexed_ = -1;                  // the last chunk in the index
  mutable std::future<Start> coming_;             // the chunk at next_, in the works
  mutable std::unique_ptr<RecordCursor> cursor_;  // used by one thread at a time: that of coming_
  mutable int64_t cursor_epoch_ = -1;
};

}  // namespace trireme
