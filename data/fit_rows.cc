// The views of row_views.h that fit rows to a length: LimitLength and PackRows.
#include <algorithm>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "data/row_views.h"

namespace trireme {
namespace {

// A range of another source's row.
struct Piece {
  int64_t row = 0;
  int64_t begin = 0, end = 0;
};

class CutRows : public RowSource {
 public:
  CutRows(Rows rows, std::vector<Piece> pieces) : rows_(std::move(rows)), pieces_(std::move(pieces)) {}
  int64_t size() const override { return static_cast<int64_t>(pieces_.size()); }
  int64_t Length(int64_t row) const override { return pieces_[row].end - pieces_[row].begin; }
  int64_t Trained(int64_t row) const override {
    return IsWhole(row) ? rows_->Trained(pieces_[row].row) : CountTrained(Read(row));
  }
  Row Read(int64_t row) const override {
    Row whole = rows_->Read(pieces_[row].row);
    if (IsWhole(row)) return whole;
    const auto [_, begin, end] = pieces_[row];
    Row piece{{whole.input_ids.begin() + begin, whole.input_ids.begin() + end},
              {whole.labels.begin() + begin, whole.labels.begin() + end}};
    if (!whole.weights.empty()) piece.weights = {whole.weights.begin() + begin, whole.weights.begin() + end};
    return piece;
  }
  RowExtent Extent(int64_t row) const override {
    return IsWhole(row) ? rows_->Extent(pieces_[row].row)
                        : RowExtent{.documents = {Length(row)}};  // images are not cut
  }

 private:
  bool IsWhole(int64_t row) const { return Length(row) == rows_->Length(pieces_[row].row); }

  const Rows rows_;
  const std::vector<Piece> pieces_;
};

template <typename T>
void Append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Labels of rows without weights count 1 each beside those of rows with them.
void AppendWeights(Row& packed, const Row& part) {
  if (packed.weights.empty() && part.weights.empty()) return;
  packed.weights.resize(packed.labels.size(), 1);
  Append(packed.weights, part.weights);
  packed.weights.resize(packed.labels.size() + part.labels.size(), 1);
}

class PackedRows : public RowSource {
 public:
  PackedRows(Rows rows, std::vector<std::vector<int64_t>> bins) : rows_(std::move(rows)), bins_(std::move(bins)) {}
  int64_t size() const override { return static_cast<int64_t>(bins_.size()); }
  int64_t Length(int64_t row) const override { return Sum(row, &RowSource::Length); }
  int64_t Trained(int64_t row) const override { return Sum(row, &RowSource::Trained); }
  Row Read(int64_t row) const override {
    Row packed;
    for (const int64_t index : bins_[row]) {
      Row part = rows_->Read(index);
      part.labels[0] = kNotTrained;  // nothing before it belongs to its document
      AppendWeights(packed, part);
      Append(packed.sampled, part.sampled);
      Append(packed.values, part.values);
      Append(packed.answer_tokens, part.answer_tokens);
      Append(packed.shared, part.shared);
      // Its samples, told apart from those before it.
      const auto documents = std::ssize(packed.starts);
      for (const int64_t sample : part.samples) packed.samples.push_back(documents + sample);
      const auto begin = static_cast<int64_t>(packed.input_ids.size());
      Append(packed.grids, part.grids);
      for (RowImage& image : part.images) {
        image.first += begin;
        packed.images.push_back(std::move(image));
      }
      if (part.starts.empty()) part.starts = {0};  // otherwise it is packed itself
      for (const int64_t start : part.starts) packed.starts.push_back(begin + start);
      Append(packed.input_ids, part.input_ids);
      Append(packed.labels, part.labels);
    }
    return packed;
  }
  RowExtent Extent(int64_t row) const override {
    RowExtent packed;
    for (const int64_t index : bins_[row]) {
      const RowExtent part = rows_->Extent(index);
      Append(packed.documents, part.documents);
      Append(packed.images, part.images);
    }
    return packed;
  }

 private:
  int64_t Sum(int64_t row, int64_t (RowSource::*count)(int64_t) const) const {
    int64_t sum = 0;
    for (const int64_t index : bins_[row]) sum += ((*rows_).*count)(index);
    return sum;
  }

  const Rows rows_;
  const std::vector<std::vector<int64_t>> bins_;
};

}  // namespace

Rows LimitLength(Rows rows, int64_t longest, OverLength policy) {
  std::vector<Piece> pieces;
  for (int64_t row = 0; row < rows->size(); ++row) {
    const int64_t length = rows->Length(row);
    if (length <= longest) {
      if (rows->Trained(row) > 0) pieces.push_back({row, 0, length});
      continue;
    }
    if (policy == OverLength::kDrop) continue;
    const Row whole = rows->Read(row);
    if (!whole.images.empty()) continue;  // an image cannot be cut
    const int64_t stop = policy == OverLength::kTruncate ? longest : length;
    for (int64_t begin = 0; begin < stop; begin += longest) {
      const int64_t end = std::min(begin + longest, stop);
      const bool learnt = std::any_of(whole.labels.begin() + begin + 1, whole.labels.begin() + end,
                                      [](int64_t label) { return label != kNotTrained; });
      if (learnt) pieces.push_back({row, begin, end});
    }
  }
  return std::make_shared<CutRows>(std::move(rows), std::move(pieces));
}

Rows PackRows(Rows rows, int64_t longest) {
  std::vector<int64_t> order(rows->size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return rows->Length(a) > rows->Length(b); });
  std::vector<std::vector<int64_t>> bins;
  std::set<std::pair<int64_t, size_t>> room;  // what is left, and in which bin
  for (const int64_t row : order) {
    const int64_t length = rows->Length(row);
    TRIREME_CHECK(length <= longest) << "row " << row << " has " << length << " tokens, a pack " << longest;
    auto best = room.lower_bound({length, 0});
    if (best == room.end()) best = room.insert({longest, bins.size()}).first;
    const auto [left, bin] = *best;
    if (bin == bins.size()) bins.emplace_back();
    bins[bin].push_back(row);
    room.erase(best);
    if (left > length) room.insert({left - length, bin});
  }
  for (std::vector<int64_t>& bin : bins) std::sort(bin.begin(), bin.end());
  std::sort(bins.begin(), bins.end());
  return std::make_shared<PackedRows>(std::move(rows), std::move(bins));
}

}  // namespace trireme
