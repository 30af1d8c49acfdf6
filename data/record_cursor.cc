#include "data/record_cursor.h"

#include <algorithm>
#include <utility>

namespace trireme {
namespace {

struct RecordRange {
  std::shared_ptr<const RecordFile> file;
  int64_t begin, end;
};

// Parts of files as one.
class RecordRanges : public RecordFile {
 public:
  explicit RecordRanges(std::vector<RecordRange> ranges) : ranges_(std::move(ranges)) {
    for (const RecordRange& range : ranges_) ends_.push_back(size() + range.end - range.begin);
  }
  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Json Read(int64_t record) const override {
    const auto [range, index] = Find(record);
    return range.file->Read(index);
  }
  std::string Where(int64_t record) const override {
    const auto [range, index] = Find(record);
    return range.file->Where(index);
  }

 private:
  std::pair<const RecordRange&, int64_t> Find(int64_t record) const {
    const auto part = static_cast<size_t>(std::upper_bound(ends_.begin(), ends_.end(), record) - ends_.begin());
    const RecordRange& range = ranges_[part];
    return {range, range.begin + record - (part == 0 ? 0 : ends_[part - 1])};
  }

  const std::vector<RecordRange> ranges_;
  std::vector<int64_t> ends_;  // of each range, in records of all
};

}  // namespace

std::unique_ptr<RecordFile> RecordCursor::Take(int64_t count) {
  std::vector<RecordRange> ranges;
  while (count > 0 && !AtEnd()) {
    if (!open_) open_ = OpenRecords(files_[position_.file]);
    const int64_t end = std::min(position_.record + count, open_->size());
    if (end > position_.record) ranges.push_back({open_, position_.record, end});
    count -= std::max<int64_t>(end - position_.record, 0);
    position_.record = end;
    if (end < open_->size()) continue;
    position_ = {position_.file + 1, 0};
    open_.reset();
  }
  return std::make_unique<RecordRanges>(std::move(ranges));
}

}  // namespace trireme
