#include "data/mismatched_rows.h"

#include <algorithm>
#include <iterator>
#include <numeric>

namespace trireme {
namespace {

using Ids = std::vector<int64_t>;

struct Part {
  Ids prompt, answer;
};

// Of each document: its answer is what is learnt of it.
std::vector<Part> PartsOf(const Row& row) {
  std::vector<Part> parts;
  for (size_t i = 0; i < row.starts.size(); ++i) {
    const int64_t begin = row.starts[i];
    const int64_t end = i + 1 < row.starts.size() ? row.starts[i + 1] : std::ssize(row.input_ids);
    const auto learnt = std::find_if(row.labels.begin() + begin, row.labels.begin() + end,
                                     [](int64_t label) { return label != kNotTrained; });
    const auto border = row.input_ids.begin() + (learnt - row.labels.begin());
    parts.push_back({{row.input_ids.begin() + begin, border}, {border, row.input_ids.begin() + end}});
  }
  return parts;
}

// The images of a document, which stand in its prompt, to the document's new place.
void MoveImages(const Row& from, size_t document, int64_t begin, Row& to) {
  const int64_t old = from.starts[document];
  const int64_t end = document + 1 < from.starts.size() ? from.starts[document + 1] : std::ssize(from.input_ids);
  for (RowImage image : from.images) {
    if (image.first < old || image.first >= end) continue;
    image.first += begin - old;
    to.images.push_back(std::move(image));
  }
}

}  // namespace

Row MismatchedRows::Read(int64_t row) const {
  const Row read = rows_.Read(chosen_[row]);
  const std::vector<Part> own = PartsOf(read);
  const std::vector<Part> before = PartsOf(rows_.Read(chosen_[(row + size() - 1) % size()]));
  Row moved;
  for (size_t i = 0; i < own.size(); ++i) {
    Ids ids = own[i].prompt;
    const Ids& answer = i > 0 ? own[i - 1].answer : before.back().answer;
    ids.insert(ids.end(), answer.begin(), answer.end());
    if (std::ssize(ids) > longest_) ids.resize(static_cast<size_t>(longest_));
    Ids labels(ids.size(), kNotTrained);
    const size_t first = std::max<size_t>(own[i].prompt.size(), 1);
    for (size_t place = first; place < ids.size(); ++place) labels[place] = ids[place];
    MoveImages(read, i, std::ssize(moved.input_ids), moved);
    moved.starts.push_back(std::ssize(moved.input_ids));
    moved.samples.push_back(static_cast<int64_t>(i));
    moved.values.push_back(0);
    moved.answer_tokens.push_back(static_cast<int64_t>(ids.size() - std::min(first, ids.size())));
    moved.input_ids.insert(moved.input_ids.end(), ids.begin(), ids.end());
    moved.labels.insert(moved.labels.end(), labels.begin(), labels.end());
  }
  moved.grids = read.grids;  // of prompts, which keep their order
  moved.patches = read.patches;
  return moved;
}

MismatchedBatches::MismatchedBatches(const RowSource& rows, const std::vector<std::vector<int64_t>>& batches,
                                     int64_t longest) {
  for (const std::vector<int64_t>& batch : batches) {
    batches_.emplace_back(rows, batch, longest);
    first_.push_back(first_.back() + std::ssize(batch));
  }
}

Row MismatchedBatches::Read(int64_t row) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), row);
  const auto batch = static_cast<size_t>(after - first_.begin() - 1);
  return batches_.at(batch).Read(row - first_[batch]);
}

std::vector<int64_t> MismatchedBatches::RowsOf(int64_t batch) const {
  const auto index = static_cast<size_t>(batch);
  std::vector<int64_t> rows(static_cast<size_t>(first_.at(index + 1) - first_.at(index)));
  std::iota(rows.begin(), rows.end(), first_[index]);
  return rows;
}

}  // namespace trireme
