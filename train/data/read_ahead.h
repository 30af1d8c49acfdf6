// ReadAhead: rows that are read on a thread of their own while others are trained, so that no step waits for
// a disk. What it gives is what the rows behind it give.
#pragma once

#include <future>
#include <unordered_map>
#include <vector>

#include "train/data/row_views.h"

namespace trireme {

class ReadAhead : public RowSource {
 public:
  explicit ReadAhead(Rows rows) : rows_(std::move(rows)) {}

  // Waits for the rows that were asked for before, which Read gives from now on, and begins with these.
  void Start(std::vector<int64_t> next);
  // How long Start has waited so far.
  double waited_seconds() const { return waited_seconds_; }

  int64_t size() const override { return rows_->size(); }
  int64_t Length(int64_t row) const override { return rows_->Length(row); }
  int64_t Trained(int64_t row) const override { return rows_->Trained(row); }
  // One that was not asked for is read at once.
  Row Read(int64_t row) const override;

 private:
  using Found = std::unordered_map<int64_t, Row>;

  const Rows rows_;
  Found here_;                 // asked for before the last Start
  std::future<Found> coming_;  // asked for by the last Start
  double waited_seconds_ = 0;
};

}  // namespace trireme
