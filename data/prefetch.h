// Prefetcher: prefetches rows on its own thread while others are trained on, so that no step waits for
// a disk. Returns the same rows as its source.
#pragma once

#include <future>
#include <unordered_map>
#include <vector>

#include "data/row_views.h"

namespace trireme {

class Prefetcher : public RowSource {
 public:
  explicit Prefetcher(Rows rows) : rows_(std::move(rows)) {}

  // Waits for the rows requested before, which Read returns from now on, and starts on these.
  void Start(std::vector<int64_t> next);
  // How long Start has waited so far.
  double waited_seconds() const { return waited_seconds_; }

  int64_t size() const override { return rows_->size(); }
  int64_t Length(int64_t row) const override { return rows_->Length(row); }
  int64_t Trained(int64_t row) const override { return rows_->Trained(row); }
  // A row that was not requested is read immediately.
  Row Read(int64_t row) const override;
  RowExtent Extent(int64_t row) const override { return rows_->Extent(row); }

 private:
  using Found = std::unordered_map<int64_t, Row>;

  const Rows rows_;
  Found here_;                 // requested before the last Start
  std::future<Found> coming_;  // requested by the last Start
  double waited_seconds_ = 0;
};

}  // namespace trireme
