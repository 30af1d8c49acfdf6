// Rows into micro batches: shared out over the data-parallel ranks, padded, labels shifted, and each row over
// the context-parallel ranks. Every rank gets as many micro batches as the others; where rows run out, empty
// ones.
#pragma once

#include <vector>

#include "parallel/layers/layer.h"
#include "train/rows.h"

namespace trireme {

struct BatchShape {
  int micro_batch = 1;  // rows of one micro batch
  int data_rank = 0;
  int data_size = 1;
  int64_t multiple = 1;  // the length of a micro batch's rows is a multiple of this
  at::Device device = at::kCPU;
  ContextSplit context = {};
};

// Micro batch i of rank r takes the rows from (i · data_size + r) · micro_batch on.
std::vector<MicroBatch> MakeMicroBatches(const std::vector<Row>& rows, const BatchShape& shape);

}  // namespace trireme
