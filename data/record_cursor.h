// RecordCursor: records of many files in order, some at a time, each file opened when its turn comes. For data that is
// read while it is trained on; whoever knows all of it uses records.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/records.h"

namespace trireme {

class RecordCursor {
 public:
  struct Position {
    int64_t file = 0, record = 0;
    bool operator==(const Position&) const = default;
  };

  RecordCursor(std::vector<DataFile> files, const Position& from) : files_(std::move(files)), position_(from) {}

  // The next records, at most `count`, as a file of their own; none at the end of the last file.
  std::unique_ptr<RecordFile> Take(int64_t count);
  // Of the record that Take would begin with.
  const Position& position() const { return position_; }
  bool AtEnd() const { return position_.file == static_cast<int64_t>(files_.size()); }

 private:
  const std::vector<DataFile> files_;
  Position position_;
  std::shared_ptr<const RecordFile> open_;  // the position's, once it was needed
};

}  // namespace trireme
