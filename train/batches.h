// Rows into micro batches: shared out over the data-parallel ranks, padded, tokens and labels shifted, and
// each row over the context-parallel ranks. Every rank reads its own rows alone, and gets as many micro
// batches as the others; where rows run out, empty ones.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "parallel/layers/layer.h"
#include "train/data/rows.h"

namespace trireme {

struct BatchShape {
  int micro_batch = 1;  // rows of one micro batch
  int data_rank = 0;
  int data_size = 1;
  int64_t multiple = 1;  // the length of a micro batch's rows is a multiple of this
  at::Device device = at::kCPU;
  ContextSplit context = {};
  std::optional<uint64_t> dropout = {};  // the step's seed, as a micro batch has it
  int64_t depths = 0;                    // of multi-token prediction
};

// Those of the `chosen` rows that the data-parallel rank reads, in the order of its micro batches.
std::vector<int64_t> OwnRows(std::span<const int64_t> chosen, const BatchShape& shape);

// What is ahead has no scales: they follow from what all ranks have of it. Of the `chosen` rows micro batch i
// of rank r takes those from (i · data_size + r) · micro_batch on.
std::vector<MicroBatch> MakeMicroBatches(const RowSource& rows, std::span<const int64_t> chosen,
                                         const BatchShape& shape);
// The same for all of some rows in memory.
std::vector<MicroBatch> MakeMicroBatches(const std::vector<Row>& rows, const BatchShape& shape);

// Of these micro batches what is ahead: [depths, 2] int32, trained tokens and all that are there.
at::Tensor CountAhead(const std::vector<MicroBatch>& batches, const BatchShape& shape);
// The scales of what is ahead, from these counts over all ranks, in host memory.
void ScaleAhead(std::vector<MicroBatch>& batches, const at::Tensor& counts);

}  // namespace trireme
