// Rows of token ids with labels, and where they come from: anything that has a number of rows and returns one
// by its index. Labels are not shifted, -100 is not trained, as in Hugging Face. No tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/graph/specs.h"

namespace trireme {

struct Row {
  std::vector<int64_t> input_ids;
  std::vector<int64_t> labels;
  // Where each document of a packed row begins, the first at 0; empty: the row is one document. Documents do
  // not attend to each other, and no label is trained across a boundary.
  std::vector<int64_t> starts = {};
  // Of each document: how many tokens at the beginning of the last document before it that shares nothing are its own
  // beginning, too, and are not repeated in the row: the prompt that answers share; empty: none.
  std::vector<int64_t> shared = {};
  // By label, for objectives that weigh each token: what its log-probability counts, there or in its
  // answer's; empty: the data has none.
  std::vector<float> weights = {};
  // Per document: the sample of the row that it belongs to, from 0 (both sides of a pair, all of a group);
  // empty: each is a separate sample.
  std::vector<int64_t> samples = {};
  // By label: its log-probability when it was sampled; empty: it was not, or nothing is known of it.
  std::vector<float> sampled = {};
  // Of each document: what the data says of it as an answer (its label, its pair's margin, its advantage); empty: it is
  // none.
  std::vector<float> values = {};
  // Of each document that is an answer: how many of its labels are the answer's own, not its prompt's.
  std::vector<int64_t> answer_tokens = {};
};

// Rows by index, the same on every rank. Only Read touches a row's tokens.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual int64_t size() const = 0;
  virtual int64_t Length(int64_t row) const = 0;
  // Predicted tokens: labels after the first position of their document that are not -100.
  virtual int64_t Trained(int64_t row) const = 0;
  virtual Row Read(int64_t row) const = 0;
};

// Rows in memory.
class RowList : public RowSource {
 public:
  explicit RowList(std::vector<Row> rows) : rows_(std::move(rows)) {}
  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  int64_t Length(int64_t row) const override { return static_cast<int64_t>(rows_[row].input_ids.size()); }
  int64_t Trained(int64_t row) const override;
  Row Read(int64_t row) const override { return rows_[row]; }

 private:
  std::vector<Row> rows_;
};

// One {"input_ids": […], "labels": […]} per line, with optional "starts", "weights" and "samples". Rejects,
// with file and line, what is not a row, an empty one, an id outside [0, vocabulary), and weights on some
// rows only.
std::vector<Row> ReadRows(const std::string& path, int64_t vocabulary);

// One {"input_ids": […]} per line, other keys are ignored; rejected as above.
std::vector<std::vector<int64_t>> ReadPrompts(const std::string& path, int64_t vocabulary);

int64_t CountTrained(const Row& row);
int64_t CountTrained(const std::vector<Row>& rows);

}  // namespace trireme
