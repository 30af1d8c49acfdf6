// MismatchedRows: the rows of a batch with every answer moved to the next prompt, the last one's to the first: KTO
// measures by them how far the policy is from the reference, whatever the prompt. The order is the batch's, over all
// documents of packed rows.
#pragma once

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "train/data/rows.h"

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

}  // namespace trireme
