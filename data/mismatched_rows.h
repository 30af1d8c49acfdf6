// MismatchedRows: the rows of a batch with every answer moved to the next prompt, the last one's to the first: KTO
// measures by them how far the policy is from the reference, whatever the prompt. The order is the batch's, over all
// documents of packed rows. What they are depends on rows alone; whom they are asked of is
// train/methods/preference/preference.h.
#pragma once

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "data/rows.h"

namespace trireme {

class MismatchedRows : public RowSource {
 public:
  // `rows` outlives it. Row i stands for chosen[i]; documents are at most `longest` tokens.
  MismatchedRows(const RowSource& rows, std::vector<int64_t> chosen, int64_t longest)
      : rows_(rows), chosen_(std::move(chosen)), longest_(longest) {}
  int64_t size() const override { return std::ssize(chosen_); }
  int64_t Length(int64_t row) const override { return std::ssize(Read(row).input_ids); }
  int64_t Trained(int64_t row) const override { return CountTrained(Read(row)); }
  Row Read(int64_t row) const override;

 private:
  const RowSource& rows_;
  const std::vector<int64_t> chosen_;
  const int64_t longest_;
};

// The mismatched rows of several batches, one after the other.
class MismatchedBatches : public RowSource {
 public:
  // `rows` outlives it; a batch names its rows.
  MismatchedBatches(const RowSource& rows, const std::vector<std::vector<int64_t>>& batches, int64_t longest);
  int64_t size() const override { return first_.back(); }
  int64_t Length(int64_t row) const override { return std::ssize(Read(row).input_ids); }
  int64_t Trained(int64_t row) const override { return CountTrained(Read(row)); }
  Row Read(int64_t row) const override;

  // The rows that stand for a batch.
  std::vector<int64_t> RowsOf(int64_t batch) const;

 private:
  std::vector<MismatchedRows> batches_;
  std::vector<int64_t> first_{0};  // of each batch, and the number of all rows
};

}  // namespace trireme
