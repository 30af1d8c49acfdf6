// Losses of the vectors of all texts of a global batch: what an anchor's vector is compared with, and what that costs.
// Plain formulas, differentiated by autograd: the table of vectors is small beside the model that makes them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "parallel/objectives/objective_options.h"

namespace trireme {

// The texts of a batch, record by record: of each its anchor, then its documents.
struct TextBatch {
  std::vector<int64_t> firsts = {0};    // of each record, the index of its anchor; last, the number of texts
  std::vector<double> values = {};      // of each text: a document's label or score; an anchor's is not read
  std::vector<uint64_t> contents = {};  // of each text: equal for equal texts

  int64_t records() const { return static_cast<int64_t>(firsts.size()) - 1; }
  int64_t texts() const { return firsts.back(); }
};

struct DifferentiatedVectors {
  double loss = 0;
  at::Tensor by_vector = {};  // like the vectors; undefined where it was not asked for
};

// vectors: [texts, hidden] fp32. infonce: each record's first document is its positive.
DifferentiatedVectors LossOfVectors(const at::Tensor& vectors, const TextBatch& batch, const TextLossOptions& options,
                                    bool differentiate);

// The cosines that an evaluation ranks by: of each record's anchor to all documents of the batch, in their order;
// [records, documents], in host memory.
at::Tensor CosinesOf(const at::Tensor& vectors, const TextBatch& batch);

}  // namespace trireme
