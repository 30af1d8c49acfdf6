// Rows of token ids with labels, one JSON object a line: {"input_ids": […], "labels": […]}. Labels are not
// shifted, -100 is not trained, as in Hugging Face. No tokenizer, no tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/graph/specs.h"

namespace trireme {

struct Row {
  std::vector<int64_t> input_ids;
  std::vector<int64_t> labels;
};

// Refuses, with file and line, what is no row, an empty one, and an id outside [0, vocabulary).
std::vector<Row> ReadRows(const std::string& path, int64_t vocabulary);

// Tokens that are predicted: labels behind the first place of their row that are not -100.
int64_t TrainedTokens(const std::vector<Row>& rows);

}  // namespace trireme
