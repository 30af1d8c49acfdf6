// What objectives over whole texts know of a micro batch and of its batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trireme {

// Of the documents of a micro batch.
struct TextFacts {
  // What the data says of them, in host memory: as many numbers of each as there are of every other (a label, a score,
  // or one per label).
  std::vector<double> values = {};
  // Of vectors, where the loss of the whole batch is known before the micro batch is differentiated: d loss / d vector,
  // [documents, hidden] fp32, and what the micro batch adds to the logged loss.
  at::Tensor by_vector = {};
  double loss = 0;
};

// Of the global batch.
struct TextTotals {
  int64_t documents = 0;
  // Of a reranker that keeps its language head: the tokens of relevant documents and of others.
  int64_t positive_token = -1, negative_token = -1;
};

}  // namespace trireme
