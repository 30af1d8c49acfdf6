// Rows of token ids with labels, one JSON object a line: {"input_ids": […], "labels": […]}, and of a packed
// row "starts": […], where its documents begin. Labels are not shifted, -100 is not trained, as in Hugging
// Face. No tokenizer, no tensors.
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
  // not see each other, and no label is learnt across a border.
  std::vector<int64_t> starts = {};
};

// Refuses, with file and line, what is no row, an empty one, and an id outside [0, vocabulary).
std::vector<Row> ReadRows(const std::string& path, int64_t vocabulary);

// Tokens that are predicted: labels behind the first place of their document that are not -100.
int64_t TrainedTokens(const std::vector<Row>& rows);

}  // namespace trireme
